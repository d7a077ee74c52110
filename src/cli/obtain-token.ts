import { type Command, Option } from 'commander';
import * as z from 'zod';
import { PEER_TYPES, type PeerType } from '../auth/caller.js';
import { SyncError } from '../lib/errors.js';
import { parseJson } from '../lib/json.js';
import { jsonOrUndefined } from '../lib/json-text.js';
import { redactUrl, type Secret } from '../lib/log.js';
import { serverAddress } from '../lib/server-address.js';
import { tokenSetting } from '../lib/setting-kinds.js';
import { SERVER_SETTINGS } from '../server/options.js';
import { type CommandIo, printLine } from './command-io.js';
import { DURATION_FORMS, parseDuration } from './durations.js';
import { listedBy } from './listed-option.js';
import { addConfigOption, loadProgramSettings, withConfig } from './program-settings.js';
import { UsageError } from './run-program.js';
import { askServer, type ServerRequest } from './server-fetch.js';
import { SERVER_URL, serverUrlOf } from './server-target.js';
import { checkSecretFile, writeSecretFile } from './write-secret.js';

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

/** Adds the command `name` (`obtain-token`): requests a token from a sync server (opal-protocol P8.3). */
export function addObtainTokenCommand(program: Command, io: CommandIo, name = 'obtain-token'): void {
  const command = program
    .command(name)
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
    obtainToken(argument, options, withConfig(io, options)),
  );
}

async function obtainToken(argument: string | undefined, options: TokenOptions, io: CommandIo): Promise<void> {
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

/** The master token that was given; else the one of the server's own settings, on the machine of the server. */
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
  if (typeof claims === 'object' && claims !== null && !Array.isArray(claims)) return claims;
  throw new UsageError('--claims must be a JSON object');
}

const RULES = { code: 'server_refused', refused: 'master_token_refused', what: 'no token' } as const;

/** Rejects with `server_unreachable`, or with `server_refused` and the server's message. */
async function ask(request: ServerRequest, env: NodeJS.ProcessEnv): Promise<z.infer<typeof tokenAnswer>> {
  const { text } = await askServer(request, RULES, env);
  const parsed = tokenAnswer.safeParse(jsonOrUndefined(text));
  if (parsed.success) return parsed.data;
  // The response is not shown: it may contain a token.
  throw new SyncError(
    'server_unreachable',
    `no token: ${redactUrl(request.url)} answers, but not as a sync server does`,
  );
}
