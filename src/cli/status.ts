import type { Command } from 'commander';
import { z } from 'zod';
import { CLIENT_SETTINGS } from '../client/options.js';
import { SyncError } from '../lib/errors.js';
import { redactUrl, type Secret } from '../lib/log.js';
import { loadSettings } from '../lib/options.js';
import { UsageError } from './run-program.js';
import { askServer } from './server-fetch.js';

/** Time between two looks of `--watch`. */
const WATCH_MS = 2000;
/** Ends of commits and of client ids that a table shows. */
const SHOWN_HASH = 10;
const SHOWN_ID = 48;
const SHOWN_ERROR = 100;
/** Clears the terminal and goes to its upper left corner (ECMA-48). */
const CLEAR = '\u001b[2J\u001b[H';

interface StatusOptions {
  serverUrl?: string;
  clientUrl?: string;
  token?: string;
  json?: boolean;
  watch?: boolean;
}

/** The part of `GET /clients` that the table shows; see `server/sessions/clients-view.ts`. */
const clientRow = z.object({
  client_id: z.string(),
  kind: z.string(),
  connected: z.boolean(),
  away_since: z.number().nullable(),
  ready: z.boolean().nullable(),
  healthy: z.boolean().nullable(),
  engine: z.object({ kind: z.string(), version: z.string().nullable(), online: z.boolean() }).nullable(),
  policy: z.object({ wanted: z.string().nullable(), held: z.string().nullable() }),
  data: z.object({
    wanted: z.record(z.string(), z.number()),
    held: z.object({ applied_through: z.number(), unresolved: z.array(z.number()) }).nullable(),
    lag_updates: z.number().nullable(),
    lag_seconds: z.number().nullable(),
    lag_at_least: z.boolean(),
  }),
  failing: z.array(z.object({ path: z.string(), error: z.string() })),
  last_error: z.object({ path: z.string(), error: z.string(), at: z.number() }).nullable(),
});
const fleet = z.object({
  epoch: z.string(),
  head: z.number(),
  policy_head: z.string().nullable(),
  incomplete: z.string().nullable(),
  clients: z.array(clientRow),
});

/** Adds `sync-server status`: the clients of a running server. */
export function addServerStatusCommand(program: Command, env: NodeJS.ProcessEnv): void {
  program
    .command('status')
    .description('Show each client of a running server: what it should hold, what it holds, how far behind it is.')
    .option('--server-url <url>', 'the sync server (default: "http://localhost:7002", env: SYNC_SERVER_URL)')
    .option('--token <token>', 'token of a datasource or listener (env: SYNC_CLIENT_TOKEN)')
    .option('--json', 'print the answer of the server as it is')
    .option('--watch', 'look again every 2 seconds, until stopped')
    .action(async (options: StatusOptions) => {
      const { url, token } = target(options.serverUrl, options.token, env);
      await show(options, async () => {
        const { text } = await askServer({ url: `${url}/clients`, token }, { code: 'server_refused' }, env);
        return options.json === true ? text : fleetTable(parsed(fleet, text, url), Date.now());
      });
    });
}

const health = z.object({
  status: z.string(),
  ready: z.boolean(),
  healthy: z.boolean(),
  policy: z.object({ hash: z.string().nullable() }),
  data: z.object({ failing: z.array(z.object({ path: z.string(), error: z.string() })) }),
  engine: z.object({ online: z.boolean(), error: z.string().nullable(), policy_mode: z.string() }),
  server: z.object({ connected: z.boolean(), error: z.string().nullable() }),
});
type Health = z.infer<typeof health>;

/** Adds `sync-client status`: how a running client sees itself. */
export function addClientStatusCommand(program: Command, env: NodeJS.ProcessEnv): void {
  program
    .command('status')
    .description('Show how a running client stands: policy, position, failing entries, engine, server.')
    .option('--client-url <url>', 'the client API (default: from SYNC_CLIENT_API_SERVER_HOST and _PORT)')
    .option('--token <token>', 'token of a listener, for the position (env: SYNC_CLIENT_TOKEN)')
    .option('--json', 'print the answers of the client as one JSON object')
    .option('--watch', 'look again every 2 seconds, until stopped')
    .action(async (options: StatusOptions) => {
      const url = options.clientUrl ?? ownUrl(env);
      const { token } = target(url, options.token, env);
      await show(options, async () => {
        // 503 is an answer, too: it says what is wrong.
        const rules = { code: 'server_refused' } as const;
        const { text } = await askServer({ url: `${url}/healthy`, token }, { ...rules, good: [200, 503] }, env);
        const position = await askServer({ url: `${url}/position`, token }, rules, env).catch((error: unknown) => {
          if (error instanceof SyncError && error.code === 'server_refused') return undefined; // older, or another token
          throw error;
        });
        if (options.json === true) return `{"health":${text},"position":${position?.text ?? 'null'}}`;
        return clientTable(parsed(health, text, url), position?.text);
      });
    });
}

/** Prints once, or again and again. */
async function show({ watch = false }: StatusOptions, print: () => Promise<string>): Promise<void> {
  if (!watch) {
    console.log(await print());
    return;
  }
  for (;;) {
    const text = await print().catch((error: unknown) => {
      // A server that restarts is what one watches for; a mistake in the call ends the command.
      if (error instanceof SyncError && error.code === 'server_unreachable') return error.message;
      throw error;
    });
    console.log(process.stdout.isTTY ? `${CLEAR}${text}` : text);
    await new Promise((resolve) => setTimeout(resolve, WATCH_MS));
  }
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

/** Where the client of this environment listens. */
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

/** The clients as a table for a terminal, those that need a look first. */
export function fleetTable(answer: z.infer<typeof fleet>, nowMs: number): string {
  const { clients, head, policy_head: policyHead, incomplete } = answer;
  const rows = clients
    .toSorted((a, b) => Number(isFine(a)) - Number(isFine(b)))
    .map((client) => [
      shortened(client.client_id, SHOWN_ID),
      stateOf(client, nowMs),
      client.engine === null ? '?' : `${client.engine.kind} ${client.engine.version ?? ''}`.trim(),
      policyOf(client.policy),
      heldOf(client),
      lagOf(client),
      errorOf(client, nowMs),
    ]);
  const header = ['CLIENT', 'STATE', 'ENGINE', 'POLICY', 'DATA', 'BEHIND', 'LAST ERROR'];
  const summary = `${clients.length} ${clients.length === 1 ? 'client' : 'clients'}, update log at ${head}, policy at ${hash(policyHead)}`;
  const notes = incomplete === null ? [] : [`There may be more clients: ${incomplete}`];
  return [summary, ...notes, '', ...table([header, ...rows])].join('\n');
}

type ClientRow = z.infer<typeof clientRow>;

function isFine({ connected, healthy, data }: ClientRow): boolean {
  return connected && healthy !== false && (data.lag_updates ?? 0) === 0;
}

function stateOf({ kind, connected, away_since, healthy, ready }: ClientRow, nowMs: number): string {
  if (!connected) return `away ${age(nowMs - (away_since ?? nowMs))}`;
  if (kind === 'plain') return 'opal';
  if (healthy === null) return 'new';
  return healthy ? 'healthy' : ready === true ? 'unhealthy' : 'not ready';
}

function policyOf({ wanted, held }: ClientRow['policy']): string {
  if (held === null) return '-';
  return wanted === null || wanted === held ? hash(held) : `${hash(held)} (wanted ${hash(wanted)})`;
}

function heldOf({ data: { wanted, held } }: ClientRow): string {
  const newest = Math.max(0, ...Object.values(wanted));
  if (held === null) return `- of ${newest}`;
  const open = held.unresolved.length === 0 ? '' : `, ${held.unresolved.length} open`;
  return `${held.applied_through} of ${newest}${open}`;
}

function lagOf({ data: { lag_updates, lag_seconds, lag_at_least } }: ClientRow): string {
  if (lag_updates === null) return '?';
  if (lag_updates === 0 && !lag_at_least) return '-';
  return `${lag_at_least ? '>= ' : ''}${lag_updates} ${lag_updates === 1 ? 'update' : 'updates'}, ${age((lag_seconds ?? 0) * 1000)}`;
}

function errorOf({ failing, last_error: last }: ClientRow, nowMs: number): string {
  const [first] = failing;
  if (first !== undefined) return shortened(`${first.path}: ${first.error}`, SHOWN_ERROR);
  return last === null ? '' : shortened(`(over) ${last.path}: ${last.error}, ${age(nowMs - last.at)} ago`, SHOWN_ERROR);
}

function clientTable({ healthy, ready, policy, data, engine, server }: Health, position: string | undefined): string {
  const rows = [
    ['State', healthy ? 'healthy' : ready ? 'unhealthy' : 'not ready'],
    ['Policy', hash(policy.hash)],
    ['Position', positionText(position)],
    ['Engine', engine.online ? `answers (policy by ${engine.policy_mode})` : `does not answer: ${engine.error ?? '?'}`],
    ['Server', server.connected ? 'connected' : `not connected${server.error === null ? '' : `: ${server.error}`}`],
    ...data.failing.map(({ path, error }, index) => [
      index === 0 ? 'Failing' : '',
      shortened(`${path}: ${error}`, SHOWN_ERROR),
    ]),
  ];
  return table(rows).join('\n');
}

const heldPosition = z.object({
  epoch: z.string().nullable(),
  applied_through: z.number(),
  unresolved: z.array(z.number()),
});

function positionText(text: string | undefined): string {
  const at = text === undefined ? undefined : heldPosition.safeParse(JSON.parse(text)).data;
  if (at === undefined) return '?';
  if (at.epoch === null) return '-';
  const open = at.unresolved.length === 0 ? '' : `, ${at.unresolved.length} open`;
  return `${at.applied_through} of update log ${at.epoch}${open}`;
}

function hash(text: string | null): string {
  return text === null ? '-' : text.slice(0, SHOWN_HASH);
}

function age(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 120) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

/** Texts of clients go to a terminal: no control characters. */
function shortened(text: string, length: number): string {
  const safe = text.replace(/\p{Cc}/gu, ' ');
  return safe.length > length ? `${safe.slice(0, length - 3)}...` : safe;
}

function table(rows: readonly (readonly string[])[]): string[] {
  const columns = Math.max(...rows.map((row) => row.length));
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
