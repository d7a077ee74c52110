import { isDeepStrictEqual } from 'node:util';
import { pino } from 'pino';
import type { Client } from '../../src/client/client.js';
import type { DecisionDefaults } from '../../src/client/decisions/decision.js';
import type { FetchProvider } from '../../src/client/fetch/provider.js';
import type { ClientSettings } from '../../src/client/options.js';
import type { LookUp } from '../../src/client/outbound/own-places.js';
import { type Answer, field, postJson, request } from './http.js';
import { CLIENT_SETTINGS, createClient, loadSettings, SyncError } from './library.js';
import { freePort, testOpa } from './opa.js';
import { until } from './until.js';

/** A real client in this process with its own engine. `await using` stops both. */
export interface StartedClient extends AsyncDisposable {
  /** The client itself, as its program has it. */
  readonly client: Client;
  /** The client API, `http://127.0.0.1:<port>`. */
  readonly url: string;
  readonly engineUrl: string;
  readonly settings: ClientSettings;
  /** The result of a query; undefined where there is none. */
  query(path: string, input?: unknown): Promise<unknown>;
  /** The document at a path, for example `/users/ann`; undefined where there is none. */
  data(path: string): Promise<unknown>;
  /** The engine's answer for a document, as it wrote it. */
  text(path: string): Promise<string>;
  /** Answers of GET /healthy and GET /ready. */
  health(): Promise<Answer>;
  ready(): Promise<Answer>;
  /** Wait for a document (undefined: for none); for a query's result; for `healthy`; for the health document to fit. */
  holds(path: string, value: unknown): Promise<void>;
  answers(path: string, input: unknown, result: unknown): Promise<void>;
  healthy(): Promise<void>;
  tells(what: string, condition: (health: unknown) => boolean): Promise<Answer>;
  /** Log lines so far. */
  readonly log: readonly LogLine[];
  /** Process id of the inline engine that was started last. */
  enginePid(): number;
  stop(): Promise<void>;
}

/** One log line, as far as tests look at it. */
export type LogLine = { readonly msg: string } & Readonly<Record<string, unknown>>;

/** What {@link startClient} is given. */
export interface StartClientOptions {
  serverUrl: string;
  /** An OPA that somebody else runs; otherwise the client has an engine of its own on a free port. */
  engineUrl?: string;
  /** The engine of its own. Default: inline. */
  engine?: 'inline' | 'embedded';
  /** Port of the client's own engine; default: a free one. */
  enginePort?: number;
  /** Fetch providers of a program that embeds the client. */
  fetchProviders?: readonly FetchProvider[];
  /** More settings, as SYNC_... names. */
  env?: Readonly<Record<string, string>>;
  /** Environment of the process as the client sees it. Default: that of this process. */
  programEnv?: Readonly<Record<string, string>>;
  /** Looks up names for what an update names. */
  lookUp?: LookUp;
  /** How the client decides where a call does not say otherwise. */
  decisions?: DecisionDefaults;
  /** How this test asks engine and client API. Default: plainly. */
  ask?: typeof request;
}

/** Longest wait for anything in these tests; what works takes milliseconds. */
const WITHIN_MS = 20_000;

/** Settings for tests: it tries again soon, and looks at its engine often. */
export const FAST = {
  SYNC_RECONNECT_MAX: '0.2',
  SYNC_RETRY_MAX: '0.2',
  SYNC_POLICY_STORE_LIVENESS_PROBE_INTERVAL_SECONDS: '0.2',
  SYNC_HTTP_FETCHER_TIMEOUT: '2',
  SYNC_FIRST_POLICY_WAIT: '1',
  SYNC_ENGINE_V0_COMPAT: 'false',
} as const;

/** Starts a client. Its own engine answers when this returns; policy and data arrive in the background. */
export async function startClient(options: StartClientOptions): Promise<StartedClient> {
  // Between finding a free port and listening another program may take it.
  for (let attempt = 1; ; attempt++) {
    try {
      return await startOnce(options);
    } catch (error) {
      const isTaken = error instanceof SyncError && error.code === 'engine_address_in_use';
      if (!isTaken || options.enginePort !== undefined || attempt >= 3) throw error;
    }
  }
}

async function startOnce(options: StartClientOptions): Promise<StartedClient> {
  const {
    serverUrl,
    engineUrl,
    engine: kind = engineUrl === undefined ? 'inline' : 'external',
    enginePort,
    env = {},
    programEnv = process.env,
    ask = request,
    fetchProviders = [],
    lookUp,
    decisions = {},
  } = options;
  const engine = env.SYNC_POLICY_STORE_URL ?? engineUrl ?? `http://127.0.0.1:${enginePort ?? (await freePort())}`;
  const lines: LogLine[] = [];
  const log = pino({ level: 'debug', base: null }, { write: (line) => void lines.push(JSON.parse(line) as LogLine) });
  const { values: settings } = loadSettings(CLIENT_SETTINGS, {
    env: {
      ...FAST,
      SYNC_SERVER_URL: serverUrl,
      SYNC_POLICY_STORE_URL: engine,
      SYNC_ENGINE: kind,
      ...(kind === 'embedded' ? {} : { SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa() }),
      SYNC_CLIENT_API_SERVER_PORT: '0',
      ...env,
    },
  });
  const client = createClient(settings, {
    log,
    env: programEnv,
    fetchProviders,
    decisions,
    rest: {}, // as the program has it
    ...(lookUp === undefined ? {} : { lookUp }),
  });
  const { url } = await client.start();
  const lastWords = (): string =>
    lines
      .slice(-20)
      .map((line) => JSON.stringify(line))
      .join('\n');
  if (kind !== 'external') {
    const started =
      kind === 'inline'
        ? () => lines.some(({ msg }) => msg === 'engine started')
        : async () => field((await ask(`${url}/healthy`)).json, 'engine', 'version') !== null;
    const unless = client.ended().then(() => Promise.reject(new Error(`it ended: ${lastWords()}`)));
    try {
      await until(started, { withinMs: 20_000, what: 'the engine started', unless });
    } catch (error) {
      await client.stop();
      throw error;
    }
  }

  const text = async (path: string): Promise<string> => (await ask(`${engine}/v1/data${path}`)).text;
  const data = async (path: string): Promise<unknown> => field(JSON.parse(await text(path)), 'result');
  const query = async (path: string, input?: unknown): Promise<unknown> => {
    const init = { method: 'POST', body: JSON.stringify({ input }) };
    return field((await ask(`${engine}/v1/data${path}`, init)).json, 'result');
  };
  const health = (): Promise<Answer> => ask(`${url}/healthy`);

  /** Waits for a condition on what `look` gives; a failure shows the last look, the health and the log. */
  async function wait<T>(what: string, look: () => Promise<T>, fits: (value: T) => boolean): Promise<T> {
    let last: T | undefined;
    try {
      await until(
        async () => {
          last = await look();
          return fits(last);
        },
        { withinMs: WITHIN_MS, what },
      );
    } catch (cause) {
      const state = await health().then(
        (answer) => answer.text,
        (error: unknown) => String(error),
      );
      throw new Error(`${what}: was ${shown(last)}\nhealth: ${state}\n${lastWords()}`, { cause });
    }
    return last as T;
  }

  return {
    client,
    url,
    engineUrl: engine,
    settings,
    log: lines,
    query,
    data,
    text,
    health,
    ready: () => ask(`${url}/ready`),
    holds: async (path, value) => {
      const what = `${path} is ${JSON.stringify(value)}`;
      await wait(
        what,
        () => data(path),
        (found) => isDeepStrictEqual(found, value),
      );
    },
    answers: async (path, input, result) => {
      const what = `${path} answers ${JSON.stringify(result)}`;
      await wait(
        what,
        () => query(path, input),
        (found) => isDeepStrictEqual(found, result),
      );
    },
    healthy: async () => void (await wait('the client is healthy', health, ({ status }) => status === 200)),
    tells: (what, condition) => wait(what, health, ({ json }) => condition(json)),
    enginePid: () => {
      const pid = lines.findLast(({ msg }) => msg === 'engine started')?.pid;
      if (typeof pid !== 'number') throw new Error('there is no inline engine');
      return pid;
    },
    stop: () => client.stop(),
    [Symbol.asyncDispose]: () => client.stop(),
  };
}

/** A looked-at value for a message; of an answer the status alone, since the health is shown beside it. */
function shown(value: unknown): string {
  return field(value, 'status') === undefined ? JSON.stringify(value) : `status ${field(value, 'status')}`;
}

/** The list of failing data entries of a health document: path and reason of each. */
export function failing(health: unknown): string[] {
  const found = field(health, 'data', 'failing');
  return Array.isArray(found) ? found.map((each) => `${field(each, 'path')}: ${field(each, 'error')}`) : [];
}

/**
 * Server settings that follow a repository. Each look starts three programs, which takes a sixth of a processor at ten a second: a
 * test whose commits are many tells the server of them (announced.ts).
 */
export function following(repo: { url: string }): Record<string, string> {
  return { SYNC_POLICY_REPO_URL: repo.url, SYNC_POLICY_REPO_POLLING_INTERVAL: '0.4' };
}

/** SYNC_DATA_CONFIG_SOURCES with these base entries; the topic is `policy_data` unless the entry says otherwise. */
export function baseEntries(...entries: readonly object[]): { SYNC_DATA_CONFIG_SOURCES: string } {
  const all = entries.map((entry) => ({ topics: ['policy_data'], ...entry }));
  return { SYNC_DATA_CONFIG_SOURCES: JSON.stringify({ config: { entries: all } }) };
}

/** Publishes one data update of these entries and answers its place in the log. */
export async function publish(serverUrl: string, ...entries: readonly object[]): Promise<number> {
  const all = entries.map((entry) => ({ url: '', topics: ['policy_data'], ...entry }));
  return publishText(serverUrl, JSON.stringify({ entries: all, reason: 'test' }));
}

/** {@link publish} of a request body as it is written. */
export async function publishText(serverUrl: string, body: string): Promise<number> {
  const answer = await postJson(`${serverUrl}/data/config`, body);
  if (answer.status !== 200) throw new Error(`publishing was answered ${answer.status}: ${answer.text}`);
  return Number(field(answer.json, 'seq'));
}
