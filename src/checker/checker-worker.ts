import { parentPort } from 'node:worker_threads';
import { SENDS_NOTHING } from '../client/engine/check-only.js';
import type { GoProgram } from '../embedded/artifact.js';
import { GoOpa } from '../embedded/go/go-opa.js';
import { errorText } from '../lib/errors.js';
import { CheckEngine, type CheckGo } from './check-engine.js';
import { judge } from './judge.js';
import type { CheckAnswer, CheckJob } from './messages.js';

/** The thread of OPA's Go code in the process that compiles one policy (checker-child.ts). */

async function answerTo(job: CheckJob, program: GoProgram): Promise<CheckAnswer> {
  try {
    const opa = await GoOpa.start({ program, host: SENDS_NOTHING });
    const go: CheckGo = {
      parse: (modules, version) => opa.parse(modules, version),
      check: (policy, documents) => opa.check(policy, documents),
      version: opa.version,
      kill: async () => undefined, // the process ends with the answer
    };
    const engine = new CheckEngine(go, job.rego);
    return { kind: 'judged', problems: await judge(job, engine) };
  } catch (error) {
    return { kind: 'failed', reason: errorText(error) };
  }
}

parentPort?.once('message', async ({ job, program }: { job: CheckJob; program: GoProgram }) => {
  parentPort?.postMessage(await answerTo(job, program));
});
