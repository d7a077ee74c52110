import { lstat, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type Command, Option } from 'commander';
import * as z from 'zod';
import { PEER_TYPES, type PeerType } from '../../../auth/caller.js';
import { SyncError } from '../../../lib/errors.js';
import { isRecord } from '../../../lib/json/is-record.js';
import { parseJson } from '../../../lib/json/json.js';
import { jsonOrUndefined } from '../../../lib/json/json-text.js';
import { serverAddress } from '../../../lib/net/server-address.js';
import { redactUrl, type Secret } from '../../../lib/observe/log.js';
import { whyUnwritable } from '../../../lib/settings/file-problem.js';
import { expandHome } from '../../../lib/settings/home-path.js';
import { replaceFile } from '../../../lib/settings/private-files.js';
import { tokenSetting } from '../../../lib/settings/setting-kinds.js';
import { SERVER_SETTINGS } from '../../../server/options.js';
import { type CommandIo, printLine } from '../../kit/command-io.js';
import { DURATION_FORMS, parseDuration } from '../../kit/durations.js';
import { listedBy } from '../../kit/listed-option.js';
import { addConfigOption, loadProgramSettings, withConfig } from '../../kit/program-settings.js';
import { UsageError } from '../../kit/run-program.js';
import { askServer, type CommandRequest } from '../../kit/server-fetch.js';
import { SERVER_URL, serverUrlOf } from '../../kit/server-target.js';

/** The master token of the server that is asked: a setting of this command alone. */
const MASTER_TOKEN = tokenSetting('SYNC_MASTER_TOKEN', 'The master token of the server.');

interface TokenOptions {
  masterTokenFile?: string;
  config?: string;
  serverUrl?: string;
  type: PeerType;
  ttl: string[];
  id?: string;
  permittedTopics?: string[];
  permittedPaths?: string[];
  claims: string;
  justTheToken: boolean;
  out?: string;
  json?: boolean;
}

/** The used part of the response; OPAL's is the same. */
const tokenAnswer = z.looseObject({ token: z.string().min(1) });

/** Adds `token`: requests a token from a sync server (opal-protocol P8.3). */
export function addTokenCommand(program: Command, io: CommandIo): void {
  const command = program
    .command('token')
    .description('Request a token from a sync server and print it.')
    .argument('[master-token]', 'the master token of the server (env: SYNC_MASTER_TOKEN, OPAL_MASTER_TOKEN)')
    .option('--master-token-file <file>', 'file that contains the master token (env: SYNC_MASTER_TOKEN_FILE)')
    .option('--server-url <url>', SERVER_URL)
    .addOption(new Option('--type <type>', 'peer type of the token').choices(PEER_TYPES).default('client'))
    .option('--ttl <duration...>', `lifetime: ${DURATION_FORMS}`, ['365d'])
    .option(
      '--id <id>',
      'who holds the token: a name such as billing, which logs, traces and pages show, or a UUID; to renew a token, the same again (default: a new UUID)',
    )
    .option(
      '--permitted-topics <topics>',
      'limit the holder to these topics, separated by commas; may be repeated',
      listedBy('--permitted-topics'),
    )
    .option(
      '--permitted-paths <paths>',
      'limit where the holder may publish: at and below these paths, separated by commas; may be repeated',
      listedBy('--permitted-paths'),
    )
    .option('--claims <json>', 'custom claims, for example {"permitted_topics":["policy_data"]}', '{}')
    .option('--out <file>', 'write the token to this file, which its owner alone may read, and print what was written')
    .option('--just-the-token', 'print only the token', true)
    .option('--no-just-the-token', 'print the whole response of the server as JSON')
    .option('--json', 'the same');
  addConfigOption(command).action((argument: string | undefined, options: TokenOptions) =>
    token(argument, options, withConfig(io, options)),
  );
}

async function token(argument: string | undefined, options: TokenOptions, io: CommandIo): Promise<void> {
  const { seconds, rest } = readTtl(options.ttl);
  // The parser reads an argument after `--ttl 365 days` as its third word.
  const [behindTtl, ...others] = rest;
  if (others.length > 0 || (behindTtl !== undefined && argument !== undefined)) {
    throw ttlError(options.ttl);
  }
  const { out } = options;
  if (out !== undefined) await checkSecretFile('--out', out);
  const master = masterToken(argument ?? behindTtl, options, io.env);
  const url = serverUrlOf(options.serverUrl, io);
  const { id, permittedTopics, permittedPaths } = options;
  const claims = {
    ...readClaims(options.claims),
    ...(permittedTopics && { permitted_topics: permittedTopics }),
    ...(permittedPaths && { permitted_paths: permittedPaths }),
  };
  const body = { ...(id !== undefined && { id }), type: options.type, ttl: seconds, claims };
  const answer = await ask({ url: serverAddress(url, '/token'), token: master, body: JSON.stringify(body) }, io.env);
  const isShort = options.justTheToken && options.json !== true;
  if (out === undefined) {
    printLine(io.stdout, isShort ? answer.token : JSON.stringify(answer, null, 2));
    return;
  }
  await writeSecretFile('--out', out, answer.token);
  const { token: _, ...told } = answer;
  printLine(io.stdout, isShort ? writtenText(out, options) : JSON.stringify({ token_file: out, ...told }, null, 2));
}

function writtenText(file: string, { type, id }: TokenOptions): string {
  return `Wrote ${file}: a token of type ${type}${id === undefined ? '' : ` for ${id}`}, for its owner alone.`;
}

/**
 * The master token that was given; else the one of the server's own settings, on the machine of the
 * server.
 */
function masterToken(argument: string | undefined, options: TokenOptions, env: NodeJS.ProcessEnv): Secret {
  const flags = { 'master-token': argument, 'master-token-file': options.masterTokenFile };
  const flagNames = { 'master-token': 'the master token' };
  const given = loadProgramSettings('client', { token: MASTER_TOKEN }, { env, flags, flagNames }).values.token;
  const token =
    given ?? loadProgramSettings('server', { token: SERVER_SETTINGS.authMasterToken }, { env }).values.token;
  if (token !== undefined) return token;
  const ways = 'as an argument, or better as SYNC_MASTER_TOKEN, SYNC_MASTER_TOKEN_FILE or --master-token-file';
  throw new UsageError(`give the master token: ${ways}`);
}

/** Returns `--ttl 30d`, or OPAL's `--ttl 30 days`, in seconds, and the words after it. */
function readTtl(words: readonly string[]): { seconds: number; rest: readonly string[] } {
  const [first = '', second = ''] = words;
  const ofOne = parseDuration(first);
  if (ofOne !== undefined) return { seconds: ofOne, rest: words.slice(1) };
  const ofTwo = /^\d+$/.test(first) ? parseDuration(`${first} ${second}`) : undefined;
  if (ofTwo === undefined) throw ttlError(words);
  return { seconds: ofTwo, rest: words.slice(2) };
}

function ttlError(words: readonly string[]): UsageError {
  // Not all words: the last one may be the master token.
  const shown = words
    .slice(0, 2)
    .filter((word) => /^[\w-]{1,16}$/.test(word))
    .join(' ');
  return new UsageError(`--ttl takes a duration: ${DURATION_FORMS}${/^-?\d/.test(shown) ? ` (is "${shown}")` : ''}`);
}

function readClaims(text: string): object {
  let claims: unknown;
  try {
    claims = parseJson(text);
  } catch {
    claims = undefined; // refused below
  }
  if (isRecord(claims)) return claims;
  throw new UsageError('--claims must be a JSON object');
}

const RULES = { code: 'server_refused', refused: 'master_token_refused', what: 'no token' } as const;

/** Rejects with `server_unreachable`, or with `server_refused` and the server's message. */
async function ask(request: CommandRequest, env: NodeJS.ProcessEnv): Promise<z.infer<typeof tokenAnswer>> {
  const { text } = await askServer(request, RULES, env);
  const parsed = tokenAnswer.safeParse(jsonOrUndefined(text));
  if (parsed.success) return parsed.data;
  // The response is not shown: it may contain a token.
  throw new SyncError(
    'server_unreachable',
    `no token: ${redactUrl(request.url)} answers, but not as a sync server does`,
  );
}

/**
 * Throws {@link UsageError} if `file` cannot become a file of secrets: a link leads to a place that
 * somebody else may have chosen, and a folder, a pipe or a device is none. `option` names it.
 */
async function checkSecretFile(option: string, file: string): Promise<void> {
  const path = expandHome(file);
  const found = await lstat(path).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' && (await stat(dirname(path)).catch(() => undefined))?.isDirectory()) return undefined;
    throw new UsageError(`${option}: ${file} cannot be written: ${whyUnwritable(error)}`);
  });
  if (found === undefined || found.isFile()) return;
  const what = found.isSymbolicLink() ? 'a link' : found.isDirectory() ? 'a folder' : 'no regular file';
  throw new UsageError(`${option}: ${file} is ${what}: give the path of the file itself, which is made or replaced`);
}

/**
 * Writes a file that its owner alone may read, in place of another one with whatever rights. Throws
 * {@link UsageError} as {@link checkSecretFile}.
 */
async function writeSecretFile(option: string, file: string, text: string): Promise<void> {
  await checkSecretFile(option, file);
  try {
    await replaceFile(expandHome(file), `${text}\n`);
  } catch (error) {
    throw new UsageError(`${option}: ${file} cannot be written: ${whyUnwritable(error)}`);
  }
}
