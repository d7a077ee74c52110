import { join } from 'node:path';
import { members } from '../../src/lib/json/json-text.js';
import { type Cable, cutCable } from '../support/cut-cable.js';
import { freePort } from '../support/opa.js';
import { asked } from './asked.js';
import { type Program, program, signalProcess } from './program.js';

/** Short times, so that a run of seconds has many of everything. */
const QUICK = {
  SYNC_RECONNECT_MAX: '0.5',
  SYNC_RETRY_MAX: '0.5',
  SYNC_FIRST_POLICY_WAIT: '2',
  SYNC_HTTP_FETCHER_TIMEOUT: '2',
  SYNC_FETCH_TOTAL_TIMEOUT: '4',
  SYNC_POLICY_STORE_TIMEOUT: '5',
  SYNC_POLICY_STORE_LIVENESS_PROBE_INTERVAL_SECONDS: '1',
  SYNC_POLICY_STORE_LIVENESS_PROBE_TIMEOUT_SECONDS: '1',
  SYNC_LOG_FORMAT: 'json',
} as const;

/** A client with its own engine. */
export interface Client extends AsyncDisposable {
  readonly program: Program;
  readonly topics: readonly string[];
  readonly apiUrl: string;
  readonly engineUrl: string;
  /** Between it and the instance that it is connected to. */
  readonly cable: Cable;
  /** See `Sampled.life`. */
  readonly life: () => string;
  /** Kills the engine; answers whether there was one. */
  killEngine(): boolean;
  freezeEngine(): boolean;
  thawEngine(): void;
  /** Kills the client; its engine too, or not: some supervisors leave it. */
  kill(withEngine: boolean): Promise<void>;
}

/** What a client of a run is. */
export interface ClientOptions {
  readonly at: number;
  readonly dir: string;
  /** The OPA program of an inline engine; undefined: an embedded one. */
  readonly opa: string | undefined;
  /** The instance that it is connected to first. */
  readonly serverUrl: string;
  readonly topics: readonly string[];
  /** It keeps a backup (offline mode). */
  readonly isOffline: boolean;
}

/** A client that has not started yet. `onEnded`: it ended though nobody ended it. */
export async function makeClient(options: ClientOptions, onEnded: (how: string) => void): Promise<Client> {
  const { at, dir, opa, topics, isOffline } = options;
  const [apiPort, enginePort] = [await freePort(), await freePort()];
  const cable = await cutCable(options.serverUrl);
  const address = `127.0.0.1:${enginePort}`;
  let enginePids: number[] = [];
  let kills = 0;
  const own = program(
    {
      name: `client-${at}`,
      kind: 'client',
      dir,
      env: {
        SYNC_SERVER_URL: cable.url,
        SYNC_CLIENT_ID: `client-${at}`,
        SYNC_DATA_TOPICS: topics.join(','),
        SYNC_CLIENT_API_SERVER_PORT: String(apiPort),
        SYNC_POLICY_STORE_URL: `http://${address}`,
        ...(opa === undefined ? { SYNC_ENGINE: 'embedded' } : { SYNC_INLINE_ENGINE_EXEC_PATH: opa }),
        SYNC_ENGINE_V0_COMPAT: 'false',
        ...QUICK,
        ...(isOffline
          ? {
              SYNC_OFFLINE_MODE_ENABLED: 'true',
              SYNC_STORE_BACKUP_PATH: join(dir, `backup-${at}.json`),
              SYNC_STORE_BACKUP_INTERVAL: '1',
            }
          : {}),
      },
    },
    onEnded,
  );
  /** The engines of this client; those that a killed client left, too. */
  const engines = (): number[] => {
    enginePids = [...new Set([...enginePids, ...own.children()])].filter((pid) =>
      signalProcess(pid, 'SIGCONT', address),
    );
    return enginePids;
  };
  const toEngine = (signal: NodeJS.Signals): boolean =>
    engines()
      .map((pid) => signalProcess(pid, signal, address))
      .includes(true);
  const killEngines = (): void => void toEngine('SIGKILL');
  process.on('exit', killEngines);
  return {
    program: own,
    topics,
    apiUrl: `http://127.0.0.1:${apiPort}`,
    engineUrl: `http://${address}`,
    cable,
    life: () => `${own.life}/${kills}`,
    killEngine: () => {
      kills++;
      return toEngine('SIGKILL');
    },
    freezeEngine: () => toEngine('SIGSTOP'),
    thawEngine: () => void toEngine('SIGCONT'),
    kill: async (withEngine) => {
      kills++;
      engines();
      await own.kill();
      if (withEngine) toEngine('SIGKILL');
    },
    [Symbol.asyncDispose]: async () => {
      engines();
      await own.kill();
      killEngines();
      process.off('exit', killEngines);
      await cable[Symbol.asyncDispose]();
    },
  };
}

/** All documents of an engine, with what rules answer, as text. */
export async function documents({ engineUrl }: Client): Promise<string> {
  const answer = await asked(`${engineUrl}/v1/data`);
  if (answer.status !== 200) throw new Error(`GET /v1/data: ${answer.status} ${answer.text}`);
  return members(answer.text.trim()).get('result') ?? '{}';
}
