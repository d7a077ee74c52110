import { parentPort } from 'node:worker_threads';
import { SENDS_NOTHING } from '../client/engine/check-only.js';
import type { GoProgram } from '../embedded/artifact.js';
import { GoOpa } from '../embedded/go/go-opa.js';
import { errorText } from '../lib/errors.js';
import { CheckEngine, type CheckGo, judgeJob } from './check-engine.js';
import type { CheckAnswer, CheckJob } from './messages.js';

/** The thread of OPA's Go code in the process that compiles policies (checker-child.ts). */

type Message = { readonly program: GoProgram } | { readonly job: CheckJob };

async function startGo(program: GoProgram): Promise<CheckGo> {
  const opa = await GoOpa.start({ program, host: SENDS_NOTHING });
  return {
    parse: (modules, version) => opa.parse(modules, version),
    check: (policy, documents) => opa.check(policy, documents),
    version: opa.version,
    kill: async () => undefined, // the process ends as a whole
  };
}

async function answerTo(job: CheckJob, starting: Promise<CheckGo>): Promise<CheckAnswer> {
  try {
    return { kind: 'judged', problems: await judgeJob(job, new CheckEngine(await starting, job.rego)) };
  } catch (error) {
    return { kind: 'failed', reason: errorText(error) };
  }
}

let started: (go: Promise<CheckGo>) => void = () => undefined;
const starting = new Promise<CheckGo>((resolve) => {
  started = resolve;
});
parentPort?.on('message', async (message: Message) => {
  if ('program' in message) started(startGo(message.program));
  else parentPort?.postMessage(await answerTo(message.job, starting));
});
