import { Argument, type Command } from 'commander';
import type * as z from 'zod';
import { CLIENT_SETTINGS } from '../../../client/options.js';
import { SyncError } from '../../../lib/errors.js';
import { MANY_JSON_VALUES, parseJson } from '../../../lib/json/json.js';
import { serverAddress } from '../../../lib/net/server-address.js';
import type { Secret } from '../../../lib/observe/log.js';
import { type ClientsAnswer, clientsAnswer } from '../../../wire/clients.js';
import { parsedAnswer, readAllPages } from '../../kit/all-clients.js';
import type { CommandIo, CommandOutput } from '../../kit/command-io.js';
import { loadProgramSettings, withConfig } from '../../kit/program-settings.js';
import { UsageError } from '../../kit/run-program.js';
import { askServer } from '../../kit/server-fetch.js';
import {
  addTokenOptions,
  checkedUrl,
  SERVER_URL,
  type ServerTarget,
  serverTarget,
  type TargetOptions,
} from '../../kit/server-target.js';
import { fleetLines, type Page } from '../../live/fleet-lines.js';
import type { FleetState } from '../../live/fleet-state.js';
import { type Look, lookOnce, onServerClock, watch } from '../watch/watch.js';
import { failOnClient, failOnFleet, failOnStream, parseFailOn } from './fail-on.js';
import { ownConditions, ownHealth, ownLines, ownPosition, type ShownPosition } from './own-lines.js';

const CLIENT_URL = 'the client API (default: from SYNC_CLIENT_API_SERVER_HOST and _PORT)';
const FAIL_ON =
  'exit with a specific code (docs/reference/commands.md) on any of unhealthy, behind, away; comma-separated';

interface StatusOptions extends TargetOptions {
  clientUrl?: string;
  json?: boolean;
  watch?: boolean;
  failOn?: string;
}

/** Adds `status [server|client]`. */
export function addStatusCommand(program: Command, io: CommandIo): void {
  const command = program
    .command('status')
    .description('Show the state of a running server with all its clients, or what one client says of itself.')
    .addArgument(new Argument('[program]', 'which program to ask').choices(['server', 'client']).default('server'))
    .option('--server-url <url>', SERVER_URL)
    .option('--client-url <url>', CLIENT_URL);
  addTokenOptions(command, 'token of a datasource or listener; of a client, a listener');
  addLookOptions(command).action((asked: 'server' | 'client', options: StatusOptions) => {
    const wrong = asked === 'server' ? 'clientUrl' : 'serverUrl';
    if (options[wrong] !== undefined) {
      const [flag, of] = wrong === 'clientUrl' ? ['--client-url', 'client'] : ['--server-url', 'server'];
      throw new UsageError(`${flag} belongs to \`status ${of}\`, and this is \`status ${asked}\``);
    }
    return asked === 'server' ? serverStatus(options, io) : clientStatus(options, io);
  });
}

function addLookOptions(command: Command): Command {
  return command
    .option('--json', 'print the response as JSON; of a client, both responses as one object')
    .option(
      '--watch',
      'show changes until stopped or --fail-on is met: of a server, on a terminal, as they happen; else every 2 seconds',
    )
    .option('--fail-on <conditions>', FAIL_ON);
}

async function serverStatus(options: StatusOptions, given: CommandIo): Promise<void> {
  const io = withConfig(given, options);
  const { env, stdout } = io;
  const target = serverTarget(options, io);
  const conditions = parseFailOn(options.failOn);
  if (options.watch === true && options.json !== true && stdout.isTTY === true) {
    // Loaded only where it is needed.
    const { watchFleet } = await import('../../live/watch-fleet.js');
    const judge = (state: FleetState): void => failOnStream(conditions, state);
    if (await watchFleet({ target, env, output: stdout, judge })) return;
  }
  await show(options, stdout, async () => {
    const { answer, raw } = await readAllPages(clientsAnswer, '/clients', target, env);
    const theirs = onServerClock(answer.now);
    return {
      key: fleetLines(timeless(answer), TIMELESS).join('\n'),
      lines: (page) => (options.json === true ? [JSON.stringify(raw)] : fleetLines(answer, theirs(page))),
      judge: () => failOnFleet(conditions, answer),
    };
  });
}

async function clientStatus(options: StatusOptions, given: CommandIo): Promise<void> {
  const io = withConfig(given, options);
  const { env, stdout } = io;
  const url = checkedUrl(options.clientUrl ?? ownUrl(env), '--client-url');
  const { token } = serverTarget({ ...options, serverUrl: url }, io);
  const conditions = parseFailOn(options.failOn);
  await show(options, stdout, async () => {
    const { health, position, raw } = await askClient({ url, token }, env);
    const theirs = onServerClock(health.now);
    return {
      key: ownLines(health, position, TIMELESS).join('\n'),
      lines: (page) => (options.json === true ? [raw] : ownLines(health, position, theirs(page))),
      judge: () => failOnClient(conditions, ownConditions(health)),
    };
  });
}

/** A page on which no time passes. */
const TIMELESS: Page = { nowMs: 0, width: Number.POSITIVE_INFINITY };

/** The clients without what changes by time alone. */
function timeless(answer: ClientsAnswer): ClientsAnswer {
  const clients = answer.clients.map((client) => ({ ...client, data: { ...client.data, lag_seconds: 0 } }));
  return { ...answer, clients };
}

/** What a client says of itself; `raw`: both responses as one JSON object. */
interface OwnState {
  readonly health: z.infer<typeof ownHealth>;
  readonly position: ShownPosition;
  readonly raw: string;
}

async function askClient({ url, token }: ServerTarget, env: NodeJS.ProcessEnv): Promise<OwnState> {
  const rules = { code: 'server_refused', unreachable: 'client_unreachable' } as const;
  // The body of a 503 has the reason.
  const { text } = await askServer({ url: serverAddress(url, '/healthy'), token }, { ...rules, good: [200, 503] }, env);
  const health = parsedAnswer(ownHealth, text, url);
  const asked = await askServer({ url: serverAddress(url, '/position'), token }, rules, env).catch((error: unknown) => {
    if (error instanceof SyncError) return error; // an older client, or an insufficient token: show the rest
    throw error;
  });
  if (asked instanceof SyncError)
    return { health, position: unknownPosition(asked, token), raw: `{"health":${text},"position":null}` };
  const position = ownPosition.safeParse(parseJson(asked.text, { values: MANY_JSON_VALUES })).data;
  return {
    health,
    position: position ?? 'unknown: the client answers in another form',
    raw: `{"health":${text},"position":${asked.text}}`,
  };
}

/** Why the position is not known. */
function unknownPosition({ code, message }: SyncError, token: Secret | undefined): string {
  if (code !== 'token_refused') return `unknown: ${message}`;
  if (token === undefined) return 'unknown: the client shows it to holders of a token: --token, or SYNC_CLIENT_TOKEN';
  return `unknown: ${message}`;
}

/** Prints the status once, or watches it; applies `--fail-on` each time. */
function show(
  { watch: isWatch = false, json = false }: StatusOptions,
  stdout: CommandOutput,
  look: () => Promise<Look>,
): Promise<void> {
  return isWatch ? watch(look, stdout, !json) : lookOnce(look, stdout);
}

/** The API address of the client in this environment. */
function ownUrl(env: NodeJS.ProcessEnv): string {
  const { host, port, apiTlsCertFile } = loadProgramSettings(
    'client',
    { host: CLIENT_SETTINGS.host, port: CLIENT_SETTINGS.port, apiTlsCertFile: CLIENT_SETTINGS.apiTlsCertFile },
    { env },
  ).values;
  const reached = host === '0.0.0.0' || host === '::' ? 'localhost' : host;
  const named = reached.includes(':') ? `[${reached}]` : reached;
  return `${apiTlsCertFile === undefined ? 'http' : 'https'}://${named}:${port}`;
}
