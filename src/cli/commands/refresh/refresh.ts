import type { Command } from 'commander';
import * as z from 'zod';
import { serverAddress } from '../../../lib/net/server-address.js';
import { parsedAnswer } from '../../kit/all-clients.js';
import { type CommandIo, printLine } from '../../kit/command-io.js';
import { listedBy } from '../../kit/listed-option.js';
import { withConfig } from '../../kit/program-settings.js';
import { UsageError } from '../../kit/run-program.js';
import { askServer } from '../../kit/server-fetch.js';
import { addTargetOptions, publisherTarget, type TargetOptions } from '../../kit/server-target.js';
import { counted } from '../../kit/text.js';

interface RefreshOptions extends TargetOptions {
  path?: string;
  topic?: string[];
  reason?: string;
  json?: boolean;
}

const refreshAnswer = z.object({
  entries: z.number(),
  id: z.string().optional(),
  seq: z.number().optional(),
  subscribers: z.number().optional(),
});

/** Adds `refresh`: all clients concerned fetch documents again. */
export function addRefreshCommand(program: Command, io: CommandIo): void {
  const command = program
    .command('refresh')
    .description('Have clients fetch documents again, for example after a data source was repaired.')
    .option('--path <path>', 'documents at, below or around this path; / means all')
    .option(
      '-t, --topic <topics>',
      'documents of these topics, separated by commas; may be repeated',
      listedBy('--topic'),
    )
    .option('--reason <text>', 'why, for the logs of the clients')
    .option('--json', 'print the response of the server as JSON');
  addTargetOptions(command, 'datasource').action((options: RefreshOptions) =>
    refresh(options, withConfig(io, options)),
  );
}

async function refresh(options: RefreshOptions, io: CommandIo): Promise<void> {
  const { path, topic: topics, reason, json = false } = options;
  if (path === undefined && topics === undefined)
    throw new UsageError('say what to fetch again: --path (/ means all documents) or --topic');
  const target = publisherTarget(options, io);
  const url = serverAddress(target.url, '/data/refresh');
  const body = JSON.stringify({ topics, path, reason });
  const rules = { code: 'server_refused', what: 'not refreshed' } as const;
  const { text } = await askServer({ url, token: target.token, body }, rules, io.env);
  const { entries, id, seq, subscribers } = parsedAnswer(refreshAnswer, text, url);
  if (json) {
    printLine(io.stdout, text);
    return;
  }
  if (entries === 0) {
    printLine(io.stdout, 'Nothing to fetch again: no document with a URL is at this path or on this topic.');
    return;
  }
  const reach =
    subscribers === undefined
      ? ''
      : `; ${counted(subscribers, 'subscriber')} ${subscribers === 1 ? 'is' : 'are'} connected for these topics now`;
  const what = `${entries} ${entries === 1 ? 'entry' : 'entries'}`;
  printLine(
    io.stdout,
    `Published ${what} again as update ${id}, seq ${seq}: clients fetch what is behind them${reach}.`,
  );
}
