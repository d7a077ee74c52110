import type { Command } from 'commander';
import type * as z from 'zod';
import { CLIENT_SETTINGS } from '../client/options.js';
import { SyncError } from '../lib/errors.js';
import { redactUrl, type Secret } from '../lib/log.js';
import { loadSettings } from '../lib/options.js';
import { serverAddress } from '../lib/server-address.js';
import { type ClientsAnswer, type ClientView, clientsAnswer } from '../wire/clients.js';
import { UsageError } from './run-program.js';
import { askServer } from './server-fetch.js';
import { failOnClient, failOnFleet, parseFailOn } from './status/fail-on.js';
import { fleetLines, type Page } from './status/fleet-lines.js';
import { ownConditions, ownHealth, ownLines, ownPosition } from './status/own-lines.js';

/** Interval of `--watch`. */
const WATCH_MS = 2000;
/** Clears the terminal and moves the cursor to its upper left corner (ECMA-48). */
const CLEAR = '\u001b[2J\u001b[H';
const FAIL_ON = 'exit with a specific code (docs/operations.md) on any of unhealthy, behind, away; comma-separated';

interface StatusOptions {
  serverUrl?: string;
  clientUrl?: string;
  token?: string;
  json?: boolean;
  watch?: boolean;
  failOn?: string;
}

/** One status: its text, and the check of `--fail-on`. */
interface Look {
  readonly text: string;
  /** Throws if a condition is met. */
  readonly judge: () => void;
}

/** Adds `sync-server status`: the policy source and the clients of a running server. */
export function addServerStatusCommand(program: Command, env: NodeJS.ProcessEnv): void {
  program
    .command('status')
    .description(
      'Show the policy source and each client of a running server: wanted and held policy and data, and failures.',
    )
    .option('--server-url <url>', 'the sync server (default: "http://localhost:7002", env: SYNC_SERVER_URL)')
    .option('--token <token>', 'token of a datasource or listener (env: SYNC_CLIENT_TOKEN)')
    .option('--json', 'print the response of the server unchanged')
    .option('--watch', 'look again every 2 seconds, until stopped or until --fail-on is met')
    .option('--fail-on <conditions>', FAIL_ON)
    .action(async (options: StatusOptions) => {
      const { url, token } = target(options.serverUrl, options.token, env);
      const conditions = parseFailOn(options.failOn);
      await show(options, async () => {
        const { answer, raw } = await allClients(url, token, env);
        const text = options.json === true ? JSON.stringify(raw) : fleetLines(answer, page()).join('\n');
        return { text, judge: () => failOnFleet(conditions, answer) };
      });
    });
}

/** Reads all pages of `GET /clients` as one response; `raw` includes members that this program does not know. */
async function allClients(
  url: string,
  token: Secret | undefined,
  env: NodeJS.ProcessEnv,
): Promise<{ answer: ClientsAnswer; raw: object }> {
  const clients: ClientView[] = [];
  const rawClients: unknown[] = [];
  for (let query: URLSearchParams | undefined; ; ) {
    const { text } = await askServer(
      { url: serverAddress(url, '/clients', query), token },
      { code: 'server_refused' },
      env,
    );
    const { next, ...answer } = parsed(clientsAnswer, text, url);
    const { next: _, ...raw } = JSON.parse(text) as { clients: unknown[]; next?: unknown };
    clients.push(...answer.clients);
    rawClients.push(...raw.clients);
    if (next == null || answer.clients.length === 0)
      return { answer: { ...answer, clients }, raw: { ...raw, clients: rawClients } };
    query = new URLSearchParams({ after: next });
  }
}

/** Adds `sync-client status`: the state that a running client reports. */
export function addClientStatusCommand(program: Command, env: NodeJS.ProcessEnv): void {
  program
    .command('status')
    .description('Show the state of a running client: policy, position, engine, server, and failures.')
    .option('--client-url <url>', 'the client API (default: from SYNC_CLIENT_API_SERVER_HOST and _PORT)')
    .option('--token <token>', 'token of a listener, for the position (env: SYNC_CLIENT_TOKEN)')
    .option('--json', 'print the responses of the client as one JSON object')
    .option('--watch', 'look again every 2 seconds, until stopped or until --fail-on is met')
    .option('--fail-on <conditions>', FAIL_ON)
    .action(async (options: StatusOptions) => {
      const url = options.clientUrl ?? ownUrl(env);
      const { token } = target(url, options.token, env);
      const conditions = parseFailOn(options.failOn);
      await show(options, () =>
        lookAtClient(url, token, options, env).then(({ text, health }) => ({
          text,
          judge: () => failOnClient(conditions, ownConditions(health)),
        })),
      );
    });
}

async function lookAtClient(
  url: string,
  token: Secret | undefined,
  { json = false }: StatusOptions,
  env: NodeJS.ProcessEnv,
): Promise<{ text: string; health: z.infer<typeof ownHealth> }> {
  const rules = { code: 'server_refused', unreachable: 'client_unreachable' } as const;
  // The body of a 503 has the reason.
  const { text } = await askServer({ url: serverAddress(url, '/healthy'), token }, { ...rules, good: [200, 503] }, env);
  const health = parsed(ownHealth, text, url);
  const position = await askServer({ url: serverAddress(url, '/position'), token }, rules, env).catch(
    (error: unknown) => {
      if (error instanceof SyncError) return undefined; // an older client, or an insufficient token: show the rest
      throw error;
    },
  );
  if (json) return { text: `{"health":${text},"position":${position?.text ?? 'null'}}`, health };
  const at = position === undefined ? undefined : ownPosition.safeParse(JSON.parse(position.text)).data;
  return { text: ownLines(health, at, page()).join('\n'), health };
}

/** Prints the status once, or repeatedly; applies `--fail-on` each time. */
async function show({ watch = false }: StatusOptions, look: () => Promise<Look>): Promise<void> {
  for (;;) {
    const { text, judge } = await look().catch((error: unknown) => {
      // Keep watching during a restart; a usage error ends the command.
      if (watch && error instanceof SyncError && UNREACHABLE.has(error.code)) {
        return { text: error.message, judge: () => undefined };
      }
      throw error;
    });
    console.log(watch && process.stdout.isTTY ? `${CLEAR}${text}` : text);
    judge();
    if (!watch) return;
    await new Promise((resolve) => setTimeout(resolve, WATCH_MS));
  }
}

const UNREACHABLE: ReadonlySet<string> = new Set(['server_unreachable', 'client_unreachable']);

/** Wraps lines only for a terminal: readers of a pipe need whole lines. */
function page(): Page {
  const { isTTY, columns } = process.stdout;
  return { nowMs: Date.now(), width: isTTY && columns > 0 ? columns : Number.POSITIVE_INFINITY };
}

function target(
  url: string | undefined,
  token: string | undefined,
  env: NodeJS.ProcessEnv,
): { url: string; token: Secret | undefined } {
  const { serverUrl, clientToken } = loadSettings(
    { serverUrl: CLIENT_SETTINGS.serverUrl, clientToken: CLIENT_SETTINGS.clientToken },
    { env, flags: { 'server-url': url, 'client-token': token } },
  ).values;
  if (!/^https?:/.test(serverUrl))
    throw new UsageError(`the URL must start with http:// or https:// (is ${redactUrl(serverUrl)})`);
  return { url: serverUrl, token: clientToken };
}

/** The API address of the client in this environment. */
function ownUrl(env: NodeJS.ProcessEnv): string {
  const { host, port, apiTlsCertFile } = loadSettings(
    { host: CLIENT_SETTINGS.host, port: CLIENT_SETTINGS.port, apiTlsCertFile: CLIENT_SETTINGS.apiTlsCertFile },
    { env },
  ).values;
  const reached = host === '0.0.0.0' || host === '::' ? 'localhost' : host;
  const named = reached.includes(':') ? `[${reached}]` : reached;
  return `${apiTlsCertFile === undefined ? 'http' : 'https'}://${named}:${port}`;
}

function parsed<S extends z.ZodType>(schema: S, text: string, url: string): z.infer<S> {
  try {
    return schema.parse(JSON.parse(text));
  } catch (cause) {
    throw new SyncError('server_refused', `${redactUrl(url)} does not answer as it should`, { cause });
  }
}
