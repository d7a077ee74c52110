import type { Command } from 'commander';
import { MANY_JSON_VALUES, parseJson } from '../../lib/json.js';
import { serverAddress } from '../../lib/server-address.js';
import { type TraceAnswer, type TraceClient, traceAnswer } from '../../wire/trace.js';
import { parsedAnswer } from '../all-clients.js';
import { type CommandIo, printLine } from '../command-io.js';
import { withConfig } from '../program-settings.js';
import { askServer } from '../server-fetch.js';
import { addTargetOptions, serverTarget, type Target, type TargetOptions } from '../server-target.js';
import { pageOf } from '../watch/watch.js';
import { traceLines } from './trace-lines.js';

interface TraceOptions extends TargetOptions {
  json?: boolean;
}

/** Adds `policysync trace`: what became of one change. */
export function addTraceCommand(program: Command, io: CommandIo): void {
  const command = program
    .command('trace')
    .argument('<change>', 'the seq or the id of a data update, or a policy commit: at least 7 digits, or its seq')
    .description('Show what became of one change: at the server, and at each client, with times.');
  addTargetOptions(command, 'datasource or listener')
    .option('--json', 'print the response as JSON, with the clients of all pages')
    .action(async (change: string, options: TraceOptions) => {
      const inFile = withConfig(io, options);
      const { answer, raw } = await wholeTrace(change, serverTarget(options, inFile), inFile.env);
      const { width } = pageOf(io.stdout);
      printLine(io.stdout, options.json === true ? JSON.stringify(raw) : traceLines(answer, width).join('\n'));
    });
}

/** Reads all pages as one response; `raw` includes members that this program does not know. */
async function wholeTrace(
  change: string,
  { url, token }: Target,
  env: NodeJS.ProcessEnv,
): Promise<{ answer: TraceAnswer; raw: object }> {
  const clients: TraceClient[] = [];
  const rawClients: unknown[] = [];
  for (let query: URLSearchParams | undefined; ; ) {
    const address = serverAddress(url, `/trace/${encodeURIComponent(change)}`, query);
    const { text } = await askServer({ url: address, token }, { code: 'server_refused' }, env);
    const { next, ...answer } = parsedAnswer(traceAnswer, text, url);
    const { next: _, ...raw } = parseJson(text, { values: MANY_JSON_VALUES }) as { clients: unknown[]; next?: unknown };
    clients.push(...answer.clients);
    rawClients.push(...raw.clients);
    if (next === null || answer.clients.length === 0) {
      return { answer: { ...answer, next: null, clients }, raw: { ...raw, clients: rawClients } };
    }
    query = new URLSearchParams({ after: next });
  }
}
