import { type Command, Option } from 'commander';
import * as z from 'zod';
import { CLIENT_SETTINGS } from '../client/options.js';
import { SyncError } from '../lib/errors.js';
import { jsonOrUndefined } from '../lib/json-text.js';
import { redactUrl } from '../lib/log.js';
import { loadSettings } from '../lib/options.js';
import { shortAnswer } from '../lib/problem-text.js';
import { serverAddress } from '../lib/server-address.js';
import { SAVE_METHODS } from '../wire/data.js';
import { readInput } from './read-input.js';
import { UsageError } from './run-program.js';
import { askServer, type ServerRequest } from './server-fetch.js';
import { buildUpdate, DEFAULT_TOPIC, type EntrySummary, type UpdateOptions } from './update-options.js';

/** Default and upper bound of `--wait`. */
const DEFAULT_WAIT_SECONDS = 5;
const MAX_WAIT_SECONDS = 60;

interface PublishOptions extends UpdateOptions {
  serverUrl?: string;
  serverRoute: string;
  token?: string;
  entriesFile?: string;
  wait?: string | true;
  idempotencyKey?: string;
}

/** The response of our servers; an OPAL server sends `status` alone. */
const publishAnswer = z.object({
  id: z.string().optional(),
  seq: z.number().optional(),
  subscribers: z.number().optional(),
  applied: z.number().optional(),
  lagging: z.array(z.object({ client_id: z.string(), reason: z.string() })).optional(),
  lagging_count: z.number().optional(),
  unknown: z.array(z.string()).optional(),
  incomplete: z.string().optional(),
});
type PublishAnswer = z.infer<typeof publishAnswer>;

/** Adds `publish-data-update`: sends one data update to a sync server (specification cli.publish-data-update). */
export function addPublishCommand(program: Command, env: NodeJS.ProcessEnv): void {
  program
    .command('publish-data-update')
    .description('Publish a data update: clients that have its topics fetch and save the data.')
    .optionsGroup('What to publish:')
    .option('--src-url <url>', 'where clients fetch the data')
    .option('--src-config <JSON>', 'how they fetch it, for example {"headers":{"Authorization":"Bearer ..."}}')
    .option(
      '--data <JSON>',
      'the data itself, instead of a URL; @file reads a file, @- standard input; passed on as written',
    )
    .option(
      '-t, --topic <topic>',
      `topic to publish on; may be repeated (default: ${DEFAULT_TOPIC})`,
      (topic, all: string[] | undefined) => [...(all ?? []), topic],
    )
    .option('--dst-path <path>', 'path in the document tree where the data is saved')
    .addOption(new Option('--save-method <method>', 'how it is saved').choices(SAVE_METHODS).default('PUT'))
    .option('--entries-file <file>', 'publish the entries of this file (a JSON array); - reads standard input')
    .option('--reason <text>', 'why, for the logs of the clients')
    .option('--id <id>', 'id of the update; by default the server makes one')
    .option(
      '--idempotency-key <key>',
      'name of this publish: repeated with the same key it is done once (for 24 hours)',
    )
    .option('--wait [seconds]', 'end when all clients concerned have applied it: with 1 where not in time (default: 5)')
    .optionsGroup('Where:')
    .option('--server-url <url>', 'the sync server (default: "http://localhost:7002", env: SYNC_SERVER_URL)')
    .option('--server-route <path>', 'path of its publish endpoint', '/data/config')
    .option('--token <token>', 'token to publish with (env: SYNC_CLIENT_TOKEN)')
    .action(async (options: PublishOptions) => publish(options, env));
}

async function publish(options: PublishOptions, env: NodeJS.ProcessEnv): Promise<void> {
  const { serverUrl, clientToken } = loadSettings(
    { serverUrl: CLIENT_SETTINGS.serverUrl, clientToken: CLIENT_SETTINGS.clientToken },
    { env, flags: { 'server-url': options.serverUrl, 'client-token': options.token } },
  ).values;
  const { entriesFile } = options;
  const entriesText = entriesFile === undefined ? undefined : await readInput('--entries-file', entriesFile, process);
  const update = buildUpdate({ ...options, ...(await dataOf(options.data)) }, entriesText);
  const url = publishUrl(serverUrl, options.serverRoute);
  const waitSeconds = readWait(options.wait);

  console.log(`Publishing to ${redactUrl(url)}`);
  for (const entry of update.entries) console.log(`  ${entryText(entry)}`);
  console.log(`Reason: ${update.reason === '' ? '(none)' : update.reason}`);
  const { idempotencyKey: key } = options;
  const headers = key === undefined ? {} : { 'idempotency-key': key };
  const answer = await send({ url, token: clientToken, body: update.text, headers }, waitSeconds, env);
  console.log(answerText(answer, update.entries));
  if (waitSeconds !== undefined) tellWait(answer, waitSeconds);
}

/** `--wait` in seconds; undefined: not asked for. */
function readWait(wait: string | true | undefined): number | undefined {
  if (wait === undefined) return undefined;
  const seconds = wait === true ? DEFAULT_WAIT_SECONDS : Number(wait);
  if (seconds > 0 && seconds <= MAX_WAIT_SECONDS) return seconds;
  throw new UsageError(`--wait must be a number of seconds, at most ${MAX_WAIT_SECONDS} (is ${String(wait)})`);
}

/** Prints how many clients have applied the update; throws `not_applied` with those that have not. */
function tellWait(
  { applied, lagging = [], lagging_count, unknown = [], incomplete }: PublishAnswer,
  seconds: number,
): void {
  if (applied === undefined)
    throw new SyncError('not_applied', 'this server does not tell what its clients have applied');
  const concerned = applied + lagging.length + unknown.length;
  console.log(
    concerned === 0 && incomplete === undefined
      ? 'Applied by 0 clients: no client is concerned, so there was nothing to wait for.'
      : `Applied by ${applied} ${applied === 1 ? 'client' : 'clients'}.`,
  );
  if (unknown.length > 0) console.log(`Not known of: ${unknown.join(', ')} (they do not say what they hold).`);
  const more = (lagging_count ?? lagging.length) - lagging.length;
  const behind = [
    ...lagging.map(({ client_id, reason }) => `${client_id}: ${reason}`),
    ...(more > 0 ? [`and ${more} more`] : []),
    ...(incomplete === undefined ? [] : [incomplete]),
  ];
  if (behind.length === 0) return;
  const list = behind.map((line) => `\n  ${line}`).join('');
  throw new SyncError('not_applied', `published, but not applied everywhere within ${seconds} s:${list}`);
}

/** The text of `--data`, which may name a file; JSON never begins with `@`. */
async function dataOf(data: string | undefined): Promise<{ data?: string; dataName?: string }> {
  if (data?.startsWith('@') !== true) return {};
  const file = data.slice(1);
  return {
    data: await readInput('--data', file, process),
    dataName: `--data: ${file === '-' ? 'standard input' : file}`,
  };
}

function publishUrl(serverUrl: string, route: string): string {
  if (!/^https?:/.test(serverUrl))
    throw new UsageError(`--server-url must start with http:// or https:// (is ${redactUrl(serverUrl)})`);
  return serverAddress(serverUrl, `/${route.replace(/^\/+/, '')}`);
}

function entryText(entry: EntrySummary): string {
  const source =
    entry.save_method === 'DELETE'
      ? ''
      : entry.inlineBytes === undefined
        ? ` from ${redactUrl(entry.url)}`
        : ` from inline data (${entry.inlineBytes} bytes)`;
  return `${entry.save_method} ${entry.dst_path === '' ? '/' : entry.dst_path}${source}, topics ${entry.topics.join(', ')}`;
}

function answerText(answer: PublishAnswer, entries: readonly EntrySummary[]): string {
  const id = answer.id === undefined ? '' : ` as update ${answer.id}`;
  const seq = answer.seq === undefined ? '' : `, seq ${answer.seq}`;
  const { subscribers } = answer;
  const reach =
    subscribers === undefined || subscribers === 0
      ? ''
      : `; ${subscribers} ${subscribers === 1 ? 'subscriber is' : 'subscribers are'} connected for these topics now`;
  const topics = [...new Set(entries.flatMap((entry) => entry.topics))].join(', ');
  const nobody =
    subscribers === 0
      ? `\nNo client is concerned: none that is connected subscribes to ${topics}. Those that come later get it all the same.`
      : '';
  return `Published successfully${id}${seq}${reach}.${nobody}`;
}

/** Sends the update; rejects with `server_unreachable`, or with `publish_failed` and the server's message. */
async function send(
  request: ServerRequest,
  waitSeconds: number | undefined,
  env: NodeJS.ProcessEnv,
): Promise<PublishAnswer> {
  const waitMs = Math.ceil((waitSeconds ?? 0) * 1000);
  const url =
    waitMs === 0
      ? request.url
      : `${request.url}${request.url.includes('?') ? '&' : '?'}wait=applied&timeout=${waitMs}ms`;
  const rules = { good: [200, 202], code: 'publish_failed', what: 'not published' } as const;
  const { status, text } = await askServer({ ...request, url, extraTimeMs: waitMs }, rules, env);
  const parsed = publishAnswer.safeParse(jsonOrUndefined(text));
  if (parsed.success) return parsed.data;
  throw new SyncError(
    'publish_failed',
    `${redactUrl(url)} answered ${status}, but not as a sync server does: ${shortAnswer(text)}`,
  );
}
