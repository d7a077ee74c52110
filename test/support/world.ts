import { createHash } from 'node:crypto';
import type { FetchRequest, FetchResult } from '../../src/client/fetch/provider.js';
import { DataUpdater } from '../../src/client/reconcile/data-updater.js';
import { PolicyUpdater } from '../../src/client/reconcile/policy-updater.js';
import { DataEvents } from '../../src/client/status/data-events.js';
import { SyncError } from '../../src/lib/errors.js';
import { JsonText } from '../../src/lib/json/json-text.js';
import { type Logger, silentLogger } from '../../src/lib/observe/log.js';
import { Fold } from '../../src/server/log/fold.js';
import type { PlacedBase } from '../../src/server/log/place.js';
import type { PolicyBundle } from '../../src/wire/bundle.js';
import type { PeerDataConfig, PeerEntry } from '../../src/wire/data.js';
import { bodyOfText } from '../../src/wire/json-node.js';
import type { TestEngine } from './engine.js';
import { until } from './until.js';

/** The topic that all clients of a {@link World} subscribe to. */
export const TOPIC = 'policy_data';

/** One commit of the world's policy repository. */
export interface Commit {
  readonly hash: string;
  readonly modules: Readonly<Record<string, string>>;
  readonly data: readonly { readonly folder: string; readonly text: string }[];
}

/** An update before the world gives it a place. */
export interface NewEntry {
  readonly path: string;
  readonly method: 'PUT' | 'PATCH' | 'DELETE';
  /** Text of the document or patch; undefined for DELETE. */
  readonly text?: string;
  /** True: the text is served at a URL of its own; false: it is inline. */
  readonly byUrl: boolean;
  /** Of a DELETE: no commit had data there. */
  readonly onlyRemoves?: boolean;
}

/**
 * Server, policy repository and data sources in memory: what a client can see of them, and nothing that it can not. The
 * log folds with the server's own rules.
 */
export class World {
  readonly epoch = 'world';
  commit: Commit = { hash: 'c0', modules: {}, data: [] };
  readonly #fold = new Fold();
  readonly #base: PlacedBase[] = [];
  readonly #sources = new Map<string, string>();
  readonly #failing = new Set<string>();
  #head = 0;
  reachable = true;

  /** Appends an update and answers it as it is notified. */
  publish(drawn: readonly NewEntry[]): { seq: number; epoch: string; entries: PeerEntry[] } {
    const seq = ++this.#head;
    const entries = drawn.map((item, index) => this.#entry(item, `${seq}/${index}`));
    this.#fold.applyRecord({ seq, entries });
    return { seq, epoch: this.epoch, entries };
  }

  /** Adds or replaces the document of a base entry, which has its place in the log from the first time on. */
  base(name: string, path: string, text: string): void {
    const url = `http://base/${name}`;
    if (!this.#sources.has(url)) {
      const entry = { url, topics: [TOPIC], dst_path: path, save_method: 'PUT' as const };
      this.#base.push({ place: [++this.#head, 0], entry });
      this.#fold.setBase(this.#base);
    }
    this.#sources.set(url, text);
  }

  #entry({ path, method, text, byUrl, onlyRemoves }: NewEntry, name: string): PeerEntry {
    const removes = onlyRemoves === true ? { only_removes: true } : {};
    const entry = { topics: [TOPIC], dst_path: path, save_method: method, ...removes };
    if (text === undefined) return { ...entry, url: '' };
    if (!byUrl) return { ...entry, url: '', data: JsonText.trusted(text) };
    const url = `http://update/${name}`;
    this.#sources.set(url, text);
    return { ...entry, url };
  }

  /** Makes sources fail from now on, or all of them work again. */
  fail(choose: (url: string) => boolean): void {
    this.#failing.clear();
    for (const url of this.#sources.keys()) if (choose(url)) this.#failing.add(url);
  }

  readonly fetchConfig = async (): Promise<PeerDataConfig> => {
    await this.#network();
    const entries = this.#fold.entries().map(({ seq, entry, origin }) => ({ ...entry, seq, origin }));
    return { entries, epoch: this.epoch, head: this.#head, base_set: true };
  };

  readonly fetchBundle = async (): Promise<PolicyBundle> => {
    await this.#network();
    const { hash, modules, data } = this.commit;
    return {
      manifest: [...Object.keys(modules), ...data.map((file) => `${file.folder}/data.json`)],
      hash,
      old_hash: null,
      data_modules: data.map((file) => ({ path: file.folder, data: file.text })),
      policy_modules: Object.entries(modules).map(([path, rego]) => ({ path, package_name: null, rego })),
      deleted_files: null,
    };
  };

  readonly fetch = async (request: FetchRequest): Promise<FetchResult> => {
    await this.#network();
    const text = this.#sources.get(request.url);
    if (text === undefined || this.#failing.has(request.url)) {
      throw new SyncError('fetch_failed', `${request.url} fails`, { retryable: true });
    }
    const etag = createHash('sha256').update(text).digest('hex');
    if (request.previous?.etag === etag) return { outcome: 'unchanged' };
    const body = bodyOfText(text);
    return { outcome: 'body', body: { ...body, [Symbol.asyncDispose]: () => body.dispose() }, etag };
  };

  /** Answers do not come in the order of the questions. */
  async #network(): Promise<void> {
    for (let turns = Math.floor(Math.random() * 4); turns > 0; turns--)
      await new Promise((resolve) => setImmediate(resolve));
    if (!this.reachable) throw new SyncError('server_unreachable', 'cut off', { retryable: true });
  }
}

/** A client of the world: the updaters over a real engine. */
export interface WorldClient extends AsyncDisposable {
  readonly data: DataUpdater;
  readonly policy: PolicyUpdater;
}

/** Short: in a world where sources fail, policies become active with their documents, and without. */
const FIRST_WAIT_MS = 100;

/** Runs the updaters of one client against the world. */
export function followWorld(world: World, engine: TestEngine, log: Logger = silentLogger()): WorldClient {
  const stop = new AbortController();
  const backoff = { minMs: 5, maxMs: 50 };
  const parts = { applier: engine.applier, exclusive: engine.keeper.exclusive, status: engine.status, log };
  const events = new DataEvents();
  events.subscribe(engine.status.onData);
  const data: DataUpdater = new DataUpdater(
    { topics: [TOPIC], backoff },
    {
      ...parts,
      events,
      fetch: world.fetch,
      fetchConfig: world.fetchConfig,
    },
  );
  const policy: PolicyUpdater = new PolicyUpdater(
    { backoff, firstWaitMs: FIRST_WAIT_MS },
    {
      ...parts,
      withDocuments: data.withDocuments,
      fetchBundle: world.fetchBundle,
      onApplied: () => data.policyChanged(),
    },
  );
  const done = Promise.all([data.run(stop.signal), policy.run(stop.signal)]);
  return {
    data,
    policy,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await done;
    },
  };
}

/** Waits until the client is at rest, and the engine has its state. */
export async function settled(client: WorldClient, engine: TestEngine): Promise<void> {
  let open: string[] = [];
  const atRest = (): boolean => {
    open = [
      ...client.data.pending,
      ...(client.policy.settled ? [] : ['policy']),
      ...(engine.status.engine.online ? [] : ['engine']),
    ];
    return open.length === 0;
  };
  try {
    await until(atRest, { withinMs: 20_000, what: 'the client is at rest' });
  } catch (cause) {
    throw new Error(`still under way: ${open.join('; ')}`, { cause });
  }
  // Whoever was at rest may have been told of a restart meanwhile: one more step proves that the engine has our state.
  await engine.keeper.exclusive(() => Promise.resolve());
}
