import { readFile } from 'node:fs/promises';
import { text as readStream } from 'node:stream/consumers';
import { type Command, Option } from 'commander';
import { z } from 'zod';
import { CLIENT_SETTINGS } from '../client/options.js';
import { errorText, SyncError } from '../lib/errors.js';
import { redactUrl } from '../lib/log.js';
import { loadSettings } from '../lib/options.js';
import { SAVE_METHODS } from '../wire/data.js';
import { UsageError } from './run-program.js';
import { parsedOrUndefined, postToServer, type ServerRequest, shortened } from './server-fetch.js';
import { buildUpdate, type EntrySummary, type UpdateOptions } from './update-options.js';

interface PublishOptions extends UpdateOptions {
  serverUrl?: string;
  serverRoute: string;
  token?: string;
  entriesFile?: string;
}

/** What our servers answer; an OPAL server says `status` alone. */
const publishAnswer = z.object({
  id: z.string().optional(),
  seq: z.number().optional(),
  subscribers: z.number().optional(),
});

/** Adds `publish-data-update`: sends one data update to a sync server (spec "Command line tools"). */
export function addPublishCommand(program: Command, env: NodeJS.ProcessEnv): void {
  program
    .command('publish-data-update')
    .description('Publish a data update: clients that have its topics fetch and save the data.')
    .optionsGroup('What to publish:')
    .option('--src-url <url>', 'where clients fetch the data')
    .option('--src-config <JSON>', 'how they fetch it, for example {"headers":{"Authorization":"Bearer ..."}}')
    .option('--data <JSON>', 'the data itself, in place of a URL; passed on exactly as written')
    .option('-t, --topic <topic>', 'topic to publish on; may be repeated', (topic, all: string[] | undefined) => [
      ...(all ?? []),
      topic,
    ])
    .option('--dst-path <path>', 'path in the document tree where the data is saved')
    .addOption(new Option('--save-method <method>', 'how it is saved').choices(SAVE_METHODS).default('PUT'))
    .option('--entries-file <file>', 'publish the entries of this file (a JSON array); - reads standard input')
    .option('--reason <text>', 'why, for the logs of the clients')
    .option('--id <id>', 'id of the update; by default the server makes one')
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
  const entriesText = options.entriesFile === undefined ? undefined : await readEntries(options.entriesFile);
  const update = buildUpdate(options, entriesText);
  const url = publishUrl(serverUrl, options.serverRoute);

  console.log(`Publishing to ${redactUrl(url)}`);
  for (const entry of update.entries) console.log(`  ${entryText(entry)}`);
  console.log(`Reason: ${update.reason === '' ? '(none)' : update.reason}`);
  const answer = await send({ url, token: clientToken, body: update.text }, env);
  console.log(answerText(answer));
}

async function readEntries(file: string): Promise<string> {
  try {
    return file === '-' ? await readStream(process.stdin) : await readFile(file, 'utf8');
  } catch (error) {
    throw new UsageError(`--entries-file cannot be read: ${errorText(error)}`);
  }
}

function publishUrl(serverUrl: string, route: string): string {
  if (!/^https?:/.test(serverUrl))
    throw new UsageError(`--server-url must start with http:// or https:// (is ${redactUrl(serverUrl)})`);
  return `${serverUrl}/${route.replace(/^\/+/, '')}`;
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

function answerText(answer: z.infer<typeof publishAnswer>): string {
  const id = answer.id === undefined ? '' : ` as update ${answer.id}`;
  const seq = answer.seq === undefined ? '' : `, seq ${answer.seq}`;
  const { subscribers } = answer;
  const reach =
    subscribers === undefined
      ? ''
      : `; ${subscribers} ${subscribers === 1 ? 'subscriber is' : 'subscribers are'} connected for these topics now`;
  return `Published successfully${id}${seq}${reach}.`;
}

/** Sends the update; throws `publish_failed` or `server_unreachable` with what the server said. */
async function send(request: ServerRequest, env: NodeJS.ProcessEnv): Promise<z.infer<typeof publishAnswer>> {
  const text = await postToServer(request, { code: 'publish_failed', what: 'not published' }, env);
  const parsed = publishAnswer.safeParse(parsedOrUndefined(text));
  if (parsed.success) return parsed.data;
  throw new SyncError(
    'publish_failed',
    `${redactUrl(request.url)} answered 200, but not as a sync server does: ${shortened(text)}`,
  );
}
