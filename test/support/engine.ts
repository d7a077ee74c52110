import { chooseEngine } from '../../src/client/engine/choose-engine.js';
import { createEngine } from '../../src/client/engine/create-engine.js';
import type { PolicyEngine } from '../../src/client/engine/engine.js';
import { OpaRest } from '../../src/client/engine/opa/opa-rest.js';
import { healthPaths } from '../../src/client/health/health-document.js';
import { CLIENT_SETTINGS, type ClientSettings } from '../../src/client/options.js';
import { Applier } from '../../src/client/reconcile/applier.js';
import { EngineKeeper } from '../../src/client/reconcile/engine-keeper.js';
import { Status } from '../../src/client/status/status.js';
import { members } from '../../src/lib/json/json-text.js';
import { type Logger, silentLogger } from '../../src/lib/observe/log.js';
import { readSettings } from '../../src/lib/settings/options.js';
import type { DocPath } from '../../src/wire/doc-path.js';
import { killProcess } from './kill.js';
import { MemoryEngine } from './memory-engine.js';
import { freePort, startOpa, testOpa } from './opa.js';
import { until } from './until.js';

/** Client settings for a test: environment names and values over the defaults. */
export function clientSettings(env: Record<string, string>): ClientSettings {
  return readSettings(CLIENT_SETTINGS, { env }).values;
}

/** An engine with the parts of the client that write to it. */
export interface TestEngine extends AsyncDisposable {
  readonly url: string;
  readonly engine: PolicyEngine;
  readonly applier: Applier;
  readonly keeper: EngineKeeper;
  readonly status: Status;
  /** Process id of the inline engine. */
  pid(): number | undefined;
  /** Kills it, where it runs; it is started again. */
  kill(): void;
  /** A document as the engine has it; undefined where there is none. */
  data(path: DocPath): Promise<unknown>;
  /** {@link data} as text, as written. */
  text(path: DocPath): Promise<string | undefined>;
  /** The result of a query. */
  query(path: string, input?: unknown): Promise<unknown>;
}

/** Runs an engine of this kind (default: inline) on a free port, or follows the external one at `externalUrl`. */
export async function startEngine(
  options: {
    externalUrl?: string;
    kind?: 'inline' | 'embedded';
    env?: Record<string, string>;
    /** Default: no, as of a client whose policy updater is disabled. */
    takesPolicy?: boolean;
    /** Environment of the engine's process. Default: that of this process. */
    programEnv?: NodeJS.ProcessEnv;
    log?: Logger;
  } = {},
): Promise<TestEngine> {
  const log = options.log ?? silentLogger();
  const url = options.externalUrl ?? `http://127.0.0.1:${await freePort()}`;
  const kind = options.kind ?? (options.externalUrl === undefined ? 'inline' : 'external');
  const settings = clientSettings({
    SYNC_POLICY_STORE_URL: url,
    SYNC_ENGINE: kind,
    ...(kind === 'embedded' ? {} : { SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa() }),
    SYNC_POLICY_STORE_LIVENESS_PROBE_INTERVAL_SECONDS: '0.2',
    ...options.env,
  });
  const stop = new AbortController();
  const deps = { log, env: options.programEnv ?? process.env, signal: stop.signal };
  const running = await createEngine(settings, {
    listens: true,
    ...{ ...deps, choice: await chooseEngine(settings, deps) },
    reserved: healthPaths(settings.healthDocument),
  });
  const applier = new Applier(running.engine, { takesPolicy: options.takesPolicy ?? false });
  const status = new Status({ policyEnabled: true, dataEnabled: true }, () => undefined);
  const keeper = new EngineKeeper(
    {
      tellsStart: running.kind !== 'external',
      probeEnabled: true,
      probeIntervalMs: settings.probeIntervalMs,
      probeTimeoutMs: settings.probeTimeoutMs,
      backoff: { minMs: 20, maxMs: 200 },
    },
    { engine: running.engine, held: applier.held, status, log },
  );
  const done = Promise.all([
    running.run({ onStarted: () => keeper.started(), onGone: (reason) => keeper.ended(reason) }, stop.signal),
    keeper.run({}, stop.signal),
  ]);
  await until(() => status.engine.online, { withinMs: 20_000, what: 'the engine holds our state' });
  const rest = new OpaRest({ url, timeoutMs: 5000 });
  return {
    url,
    engine: running.engine,
    applier,
    keeper,
    status,
    pid: () => running.pid(),
    kill: () => {
      const pid = running.pid();
      if (pid !== undefined) killProcess(pid);
    },
    data: async (path) => {
      if (running.embedded !== undefined) return resultOf(await running.engine.read(path, stop.signal));
      const text = await rest.getData(path, stop.signal);
      return text === undefined ? undefined : (JSON.parse(text) as unknown);
    },
    text: async (path) => resultTextOf(await running.engine.read(path, stop.signal)),
    query: async (path, input) => {
      if (running.embedded !== undefined) {
        const { text } = await running.embedded.decide({ path, input: JSON.stringify(input) });
        return text === undefined ? undefined : (JSON.parse(text) as unknown);
      }
      const response = await fetch(`${url}/v1/data/${path}`, { method: 'POST', body: JSON.stringify({ input }) });
      return resultOf(await response.text());
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await done;
      await running.close();
      await rest.close();
    },
  };
}

/** Follows an external engine, whose modules are read as Rego v0. Killed, it comes back at the same address, and holds nothing. */
export async function startExternalEngine(): Promise<TestEngine> {
  const options = { args: ['--v0-compatible'] };
  let opa = await startOpa(options);
  let back: Promise<void> = Promise.resolve();
  const engine = await startEngine({ externalUrl: opa.url });
  const restart = async (): Promise<void> => {
    const { port } = opa;
    await opa.kill();
    opa = await startOpa({ ...options, port });
  };
  return {
    ...engine,
    kill: () => {
      back = back.then(restart);
    },
    [Symbol.asyncDispose]: async () => {
      await back;
      await engine[Symbol.asyncDispose]();
      await opa[Symbol.asyncDispose]();
    },
  };
}

/** An engine in memory with the same parts; there is nothing behind its `url`, and it answers no query. */
export async function startMemoryEngine(options: { mostRoots?: number } = {}): Promise<TestEngine> {
  const log = silentLogger();
  const engine = new MemoryEngine('bundle', { tell: () => undefined, turn: async () => undefined, ...options });
  const applier = new Applier(engine, { takesPolicy: false });
  const status = new Status({ policyEnabled: true, dataEnabled: true }, () => undefined);
  const keeper = new EngineKeeper(
    { tellsStart: true, probeEnabled: false, probeIntervalMs: 0, probeTimeoutMs: 0, backoff: { minMs: 1, maxMs: 10 } },
    { engine, held: applier.held, status, log },
  );
  const stop = new AbortController();
  const done = keeper.run({}, stop.signal);
  keeper.started();
  await until(() => status.engine.online, { withinMs: 20_000, what: 'the engine holds our state' });
  return {
    url: '',
    ...{ engine, applier, keeper, status },
    pid: () => undefined,
    kill: () => {
      engine.wipe();
      keeper.ended('it was killed');
      keeper.started();
    },
    data: async (path) => resultOf(await engine.read(path)),
    text: async (path) => resultTextOf(await engine.read(path)),
    query: () => Promise.reject(new Error('an engine in memory has no rules to ask')),
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await done;
    },
  };
}

function resultTextOf(text: string): string | undefined {
  return members(text.trim()).get('result');
}

function resultOf(text: string): unknown {
  return (JSON.parse(text) as { result?: unknown }).result;
}
