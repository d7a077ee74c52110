import type { Command } from 'commander';
import { traceAnswer } from '../../../wire/trace.js';
import { readAllPages } from '../../kit/all-clients.js';
import { type CommandIo, printLine } from '../../kit/command-io.js';
import { withConfig } from '../../kit/program-settings.js';
import { addTargetOptions, serverTarget, type TargetOptions } from '../../kit/server-target.js';
import { terminalPage } from '../watch/watch.js';
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
      const path = `/trace/${encodeURIComponent(change)}`;
      const target = serverTarget(options, inFile);
      const { answer, raw } = await readAllPages(traceAnswer, path, target, inFile.env);
      const { width } = terminalPage(io.stdout);
      printLine(io.stdout, options.json === true ? JSON.stringify(raw) : traceLines(answer, width).join('\n'));
    });
}
