import { type Command, Option } from 'commander';
import * as z from 'zod';
import { PEER_TYPES, type PeerType } from '../auth/caller.js';
import { CLIENT_SETTINGS } from '../client/options.js';
import { SyncError } from '../lib/errors.js';
import { jsonOrUndefined } from '../lib/json-text.js';
import { redactUrl, Secret } from '../lib/log.js';
import { loadSettings } from '../lib/options.js';
import { serverAddress } from '../lib/server-address.js';
import { UsageError } from './run-program.js';
import { askServer, type ServerRequest } from './server-fetch.js';

/** Units of `--ttl`, in seconds (opal-protocol P8.3). */
const UNIT_SECONDS: Readonly<Record<string, number>> = {
  weeks: 604_800,
  days: 86_400,
  hours: 3600,
  minutes: 60,
  seconds: 1,
  milliseconds: 0.001,
  microseconds: 0.000_001,
};

interface TokenOptions {
  serverUrl?: string;
  type: PeerType;
  ttl: string[];
  id?: string;
  permittedTopics?: string[];
  permittedPaths?: string[];
  claims: string;
  justTheToken: boolean;
}

/** The used part of the response; OPAL's is the same. */
const tokenAnswer = z.looseObject({ token: z.string().min(1) });

/** Adds `obtain-token`: requests a token from a sync server (opal-protocol P8.3). Both programs have it. */
export function addObtainTokenCommand(program: Command, env: NodeJS.ProcessEnv): void {
  program
    .command('obtain-token')
    .description('Request a token from a sync server and print it.')
    .argument('[master-token]', 'the master token of the server (env: SYNC_MASTER_TOKEN, OPAL_MASTER_TOKEN)')
    .option('--server-url <url>', 'the sync server (default: "http://localhost:7002", env: SYNC_SERVER_URL)')
    .addOption(new Option('--type <type>', 'peer type of the token').choices(PEER_TYPES).default('client'))
    .option('--ttl <n unit...>', `lifetime, for example 365 days; units: ${Object.keys(UNIT_SECONDS).join(', ')}`, [
      '365',
      'days',
    ])
    .option('--id <uuid>', 'subject of the token; to renew a token, its subject (default: a new one)')
    .option(
      '--permitted-topics <topics>',
      'limit the holder to these topics, separated by commas; may be repeated',
      listed,
    )
    .option(
      '--permitted-paths <paths>',
      'limit where the holder may publish: at and below these paths, separated by commas; may be repeated',
      listed,
    )
    .option('--claims <JSON>', 'custom claims, for example {"permitted_topics":["policy_data"]}', '{}')
    .option('--just-the-token', 'print only the token', true)
    .option('--no-just-the-token', 'print the whole response of the server as JSON')
    .action((argument: string | undefined, options: TokenOptions) => obtainToken(argument, options, env));
}

async function obtainToken(argument: string | undefined, options: TokenOptions, env: NodeJS.ProcessEnv): Promise<void> {
  const { seconds, rest } = readTtl(options.ttl);
  // The parser reads an argument after `--ttl 365 days` as its third word.
  const [behindTtl, ...others] = rest;
  if (others.length > 0 || (behindTtl !== undefined && argument !== undefined)) {
    throw new UsageError('--ttl takes a number and a unit, for example --ttl 365 days');
  }
  const master = argument ?? behindTtl ?? env.SYNC_MASTER_TOKEN ?? env.OPAL_MASTER_TOKEN ?? '';
  if (master === '') throw new UsageError('give the master token: as an argument, or better as SYNC_MASTER_TOKEN');
  const { serverUrl } = loadSettings(
    { serverUrl: CLIENT_SETTINGS.serverUrl },
    { env, flags: { 'server-url': options.serverUrl } },
  ).values;
  if (!/^https?:/.test(serverUrl)) throw new UsageError('--server-url must start with http:// or https://');
  const { id, permittedTopics, permittedPaths } = options;
  const claims = {
    ...readClaims(options.claims),
    ...(permittedTopics && { permitted_topics: permittedTopics }),
    ...(permittedPaths && { permitted_paths: permittedPaths }),
  };
  const body = { ...(id !== undefined && { id }), type: options.type, ttl: seconds, claims };
  const answer = await ask(
    { url: serverAddress(serverUrl, '/token'), token: new Secret(master), body: JSON.stringify(body) },
    env,
  );
  console.log(options.justTheToken ? answer.token : JSON.stringify(answer, null, 2));
}

/** Returns `--ttl 365 days` in seconds, and the words after it. */
function readTtl(words: readonly string[]): { seconds: number; rest: readonly string[] } {
  const [count = '', unit = '', ...rest] = words.flatMap((word) => word.split(' '));
  const unitSeconds = UNIT_SECONDS[unit];
  if (!/^\d{1,15}$/.test(count) || unitSeconds === undefined) {
    throw new UsageError(`--ttl takes a whole number and a unit (${Object.keys(UNIT_SECONDS).join(', ')})`);
  }
  return { seconds: Number(count) * unitSeconds, rest };
}

/** Collects the words of a repeatable option; an empty text is an empty list. */
function listed(text: string, before: string[] = []): string[] {
  return [...before, ...text.split(',').filter((word) => word !== '')];
}

function readClaims(text: string): object {
  let claims: unknown;
  try {
    claims = JSON.parse(text);
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
  throw new SyncError('server_refused', `no token: ${redactUrl(request.url)} did not answer as a sync server does`);
}
