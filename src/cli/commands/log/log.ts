import type { Command } from 'commander';
import { type CommandIo, printLine } from '../../kit/command-io.js';
import { parseDuration } from '../../kit/durations.js';
import { withConfig } from '../../kit/program-settings.js';
import { UsageError } from '../../kit/run-program.js';
import { addTargetOptions, publisherTarget, type TargetOptions } from '../../kit/server-target.js';
import { terminalPage } from '../watch/watch.js';
import { follow, type News } from './follow.js';
import { logLines, type Widths } from './lines.js';
import { type LogListing, readLog } from './pages.js';

const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 100_000;

interface LogOptions extends TargetOptions {
  path?: string;
  topic?: string;
  publisher?: string;
  since?: string;
  until?: string;
  limit: string;
  follow?: boolean;
  json?: boolean;
}

/** Adds `log`: who published what, when and why. */
export function addLogCommand(program: Command, io: CommandIo): void {
  const command = program
    .command('log')
    .description('Show the data updates that a server has in its log: who published what, when and why; newest last.')
    .option('--path <path>', 'only entries at or below this path')
    .option('--topic <topic>', 'only entries of this topic')
    .option('--publisher <name>', 'only what this publisher published: the name or UUID of its token')
    .option('--since <time>', 'only newer ones: ISO 8601, or how long ago, such as 2h or 7d')
    .option('--until <time>', 'only older ones, in the same forms')
    .option('--limit <n>', 'how many', String(DEFAULT_LIMIT))
    .option('-f, --follow', 'go on with new updates until stopped; with --json, one JSON object a line')
    .option('--json', 'print them as JSON, newest first');
  addTargetOptions(command, 'datasource').action((options: LogOptions) => log(options, withConfig(io, options)));
}

async function log(options: LogOptions, io: CommandIo): Promise<void> {
  const { json = false } = options;
  const target = publisherTarget(options, io);
  const first = { filters: filtersOf(options, Date.now()), limit: limitOf(options.limit), after: 0 };
  if (options.follow !== true) {
    const part = await readLog(target, first, io.env);
    printLine(io.stdout, json ? JSON.stringify(part) : textOf(part, terminalPage(io.stdout).width));
    return;
  }
  if (options.until !== undefined) throw new UsageError('--follow goes on for ever: give it without --until');
  let widths: Widths | undefined;
  const print = ({ part: { updates } }: News): string => {
    const inOrder = updates.toReversed();
    if (json) return inOrder.map((update) => `${JSON.stringify(update)}\n`).join('');
    const shown = logLines(inOrder, terminalPage(io.stdout).width, widths);
    widths = shown.widths;
    return shown.lines.map((line) => `${line}\n`).join('');
  };
  await follow((query) => readLog(target, query, io.env), first, print, io);
}

function textOf({ updates }: LogListing, width: number): string {
  if (updates.length === 0) return 'No data update is in the log, or none that was asked for.';
  return logLines(updates.toReversed(), width).lines.join('\n');
}

/** The query of `GET /data/log`. Throws {@link UsageError} for a time that is none. */
function filtersOf({ path, topic, publisher, since, until }: LogOptions, nowMs: number): Record<string, string> {
  const given = {
    path,
    topic,
    publisher,
    since: timeOf('--since', since, nowMs),
    until: timeOf('--until', until, nowMs),
  };
  return Object.fromEntries(Object.entries(given).filter((pair): pair is [string, string] => pair[1] !== undefined));
}

function timeOf(option: string, text: string | undefined, nowMs: number): string | undefined {
  if (text === undefined) return undefined;
  const ago = parseDuration(text);
  const atMs = ago !== undefined ? nowMs - ago * 1000 : /^\d{4}-/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isFinite(atMs)) return new Date(atMs).toISOString();
  throw new UsageError(
    `${option} takes a time such as 2026-11-21T10:00:00Z, or how long ago, such as 2h (is ${JSON.stringify(text)})`,
  );
}

function limitOf(text: string): number {
  const limit = Number(text);
  if (Number.isInteger(limit) && limit >= 1 && limit <= MAX_LIMIT) return limit;
  throw new UsageError(`--limit must be a whole number from 1 to ${MAX_LIMIT} (is ${JSON.stringify(text)})`);
}
