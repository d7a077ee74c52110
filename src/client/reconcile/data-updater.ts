import { createHash } from 'node:crypto';
import { errorText, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import { type BackoffOptions, backoffMs, sleep } from '../../lib/loop.js';
import type { PeerDataConfig, PeerEntry, PeerUpdate } from '../../wire/data.js';
import { type DocPath, docPathText, pathsOverlap } from '../../wire/doc-path.js';
import { compareRank, type Layer, type LayerContent, type Rank } from '../desired/layers.js';
import { PatchRefused, parsePatch } from '../desired/patch.js';
import { PathIndex } from '../desired/path-index.js';
import { bodyOfText } from '../desired/text-body.js';
import { type Body, EngineRefusal } from '../engine/engine.js';
import type { FetchRequest, FetchResult } from '../fetch/http-fetch.js';
import type { DataStatus } from '../status.js';
import type { Applier } from './applier.js';
import { concerns, entryIdentity, entryPath, entryReplaces, type KnownEntry } from './entry.js';
import { RetryLoop } from './retry-loop.js';

/** Layers of one engine transaction at most, and the sum of their bytes: see chunks.ts. */
const BATCH_LAYERS = 500;
const BATCH_BYTES = 4 * 1024 * 1024;
/** The same update on several topics of a server without seqs arrives within this time (protocol-facts sharp edge 3). */
const DUPLICATE_WINDOW_MS = 5_000;

/** A failure that does not pass by itself starts with the wait of this many tries later. */
const LASTING_HEAD_START = 4;

/** What the data updater works with. */
export interface DataUpdaterDeps {
  readonly applier: Applier;
  /** Runs one engine step at a time, after the engine has our state. */
  readonly exclusive: <T>(step: (signal: AbortSignal) => Promise<T>) => Promise<T>;
  readonly fetch: (request: FetchRequest, signal: AbortSignal) => Promise<FetchResult>;
  readonly fetchConfig: (signal: AbortSignal) => Promise<PeerDataConfig>;
  /** Called with the paths of documents that the engine now holds in a new version. */
  readonly onApplied: (paths: readonly DocPath[]) => void;
  readonly status: DataStatus;
  readonly log: Logger;
}

/**
 * Keeps the engine's documents at what the base configuration and the data updates say (design 2): learns entries, fetches
 * each on its own, and hands what has arrived to the engine in rank order. A source that fails holds up nothing else.
 */
export class DataUpdater {
  readonly #topics: ReadonlySet<string>;
  readonly #backoff: BackoffOptions;
  readonly #deps: DataUpdaterDeps;
  readonly #entries = new PathIndex<KnownEntry>();
  readonly #ready = new Set<KnownEntry>();
  readonly #tasks = new Set<Promise<void>>();
  readonly #configLoop: RetryLoop;
  readonly #applyLoop: RetryLoop;
  readonly #recent = new Map<string, { topics: Set<string>; atMs: number }>();
  #epoch: string | undefined;
  /** Counts logs: entries of a later era win over all of an earlier one. */
  #era = 1;
  /** Place of the next update of a server without seqs. */
  #next = 1;
  #stopped = false;

  constructor(options: { topics: readonly string[]; backoff: BackoffOptions }, deps: DataUpdaterDeps) {
    this.#topics = new Set(options.topics);
    this.#backoff = options.backoff;
    this.#deps = deps;
    this.#configLoop = new RetryLoop('reading the data configuration', options.backoff, deps.log, (signal) =>
      this.#readConfig(signal),
    );
    this.#applyLoop = new RetryLoop('writing data to the engine', options.backoff, deps.log, () => this.#applyReady());
  }

  /** What is under way, for people; empty when every known entry is applied, or withheld by the engine. */
  get pending(): string[] {
    const loops = [this.#configLoop, this.#applyLoop].flatMap((loop) =>
      loop.idle ? [] : [`${loop.name}: ${loop.error ?? 'under way'}`],
    );
    const open = [...this.#entries.all()].filter(
      (entry) => entry.state.kind === 'fetching' || entry.state.kind === 'ready',
    );
    return [
      ...loops,
      ...open.map(
        (entry) =>
          `${docPathText(entry.path)} (${entry.entry.save_method}, seq ${entry.rank.seq}): ${entry.state.kind}`,
      ),
    ];
  }

  /** Call after each (re)connect, once subscribed: reads base configuration and retained updates again. */
  resync(): void {
    this.#configLoop.request();
  }

  /** Tries blocked and withheld entries again: policy has changed. */
  policyChanged(): void {
    const { blocked } = this.#deps.applier;
    for (const entry of this.#entries.all()) {
      const withheld = blocked.get(entry.id);
      if (withheld !== undefined) this.#settle(entry, { kind: 'blocked', error: withheld.reason });
      else if (entry.state.kind === 'blocked' && this.#deps.applier.layers.get(entry.id) !== undefined)
        this.#settle(entry, { kind: 'applied' });
    }
  }

  /** Takes a data update that arrived on a topic; `text` is its exact text. */
  receive(update: PeerUpdate, topic: string, text: string): void {
    const { log } = this.#deps;
    if (update.seq === undefined && this.#isDuplicate(topic, text)) return;
    if (update.epoch !== undefined && update.epoch !== this.#epoch) {
      // Another log than the one whose fold we hold: only reading it again tells where this update belongs.
      this.resync();
      return;
    }
    const id = update.id ?? createHash('sha256').update(`${this.#era}/${this.#next}`).digest('hex').slice(0, 32);
    const seq = update.seq ?? this.#next++;
    const transaction = this.#deps.status.begin(id, update.reason ?? '');
    log.info(
      { update_id: id, topic, reason: update.reason ?? '', entries: update.entries.length, seq: update.seq },
      'data update received',
    );
    for (const [index, entry] of update.entries.entries()) {
      if (!concerns(entry, this.#topics)) continue;
      const rank = { era: this.#era, seq, index };
      this.#learn(
        entry,
        rank,
        'update',
        this.#idOf(entry, update.seq, `live/${this.#era}/${seq}/${index}`),
        transaction,
      );
    }
    this.#deps.status.sealed(transaction);
  }

  /** Runs until the signal aborts; then every fetch has ended. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      await Promise.all([this.#configLoop.run(signal), this.#applyLoop.run(signal)]);
    } finally {
      this.#stopped = true;
      for (const entry of this.#entries.all()) entry.abort.abort();
      await Promise.all(this.#tasks);
    }
  }

  async #readConfig(signal: AbortSignal): Promise<void> {
    // What arrives from now on may be newer than the answer: it gets the later place.
    const reserved = this.#next++;
    const config = await this.#deps.fetchConfig(signal);
    if (config.epoch === undefined || config.epoch !== this.#epoch) {
      // Places of another log (or of none) do not compare with the ones before: they are a new era.
      if (config.epoch !== undefined || this.#epoch !== undefined) this.#era++;
      this.#epoch = config.epoch;
    }
    const transaction = this.#deps.status.begin('initial-load', 'base data and retained updates');
    const seen = new Set<string>();
    const counts = new Map<number, number>();
    for (const entry of config.entries) {
      if (!concerns(entry, this.#topics)) continue;
      const seq = entry.seq ?? reserved;
      const index = counts.get(seq) ?? 0;
      counts.set(seq, index + 1);
      const id = this.#idOf(entry, entry.seq, `base/${entryIdentity(entry, entryPath(entry))}`);
      seen.add(id);
      this.#learn(entry, { era: this.#era, seq, index }, 'base', id, transaction);
    }
    this.#pruneMissing(config, seen);
    this.#deps.status.sealed(transaction);
    this.#deps.status.configRead(config.entries.length);
  }

  #idOf(entry: PeerEntry, seq: number | undefined, local: string): string {
    return seq === undefined ? local : `${this.#epoch}/${seq}/${entryIdentity(entry, entryPath(entry))}`;
  }

  /**
   * Removes what a complete fold of the same epoch no longer has (design 9.3). Nothing is ever removed on the word of a
   * server without an epoch, or of another epoch.
   */
  #pruneMissing(config: PeerDataConfig, seen: ReadonlySet<string>): void {
    if (config.epoch === undefined || config.head === undefined) return;
    const { head, base_set: baseSet } = config;
    const gone = [...this.#entries.all()].filter(
      (entry) =>
        entry.epoch === config.epoch &&
        entry.rank.seq <= head &&
        !seen.has(entry.id) &&
        (entry.origin === 'update' || baseSet === true),
    );
    for (const entry of gone) this.#retire(entry);
  }

  /** Drops an entry and, if the engine holds it, its document. */
  #retire(entry: KnownEntry): void {
    this.#forget(entry);
    if (this.#deps.applier.layers.get(entry.id) === undefined) {
      this.#deps.applier.unblock(entry.id);
      return;
    }
    this.#own(
      this.#deps
        .exclusive((signal) => this.#deps.applier.applyLayers({ set: [], drop: [entry.id] }, signal))
        .then(
          async (dropped) => {
            await this.#release(dropped);
            this.#deps.log.info({ path: docPathText(entry.path) }, 'document removed: its entry is no longer desired');
          },
          (error: unknown) => {
            this.#deps.log.warn(
              { path: docPathText(entry.path), error: errorText(error) },
              'document of a removed entry could not be removed; the next read of the configuration tries again',
            );
            this.#entries.set(entry);
          },
        ),
    );
  }

  #learn(entry: PeerEntry, rank: Rank, origin: KnownEntry['origin'], id: string, transaction: string): void {
    const path = entryPath(entry);
    const known = this.#entries.get(id);
    if (known !== undefined) {
      if (known.rank.era === rank.era && known.epoch !== undefined) {
        known.entry = entry;
        this.#revalidate(known, transaction);
        return;
      }
      this.#forget(known);
    }
    const covers = this.#entries
      .atOrAbove(path)
      .some((other) => entryReplaces(other.entry) && compareRank(other.rank, rank) > 0);
    if (covers) return;
    if (entryReplaces(entry)) {
      for (const other of this.#entries.atOrBelow(path)) {
        if (compareRank(other.rank, rank) < 0 && other.state.kind !== 'applied') this.#forget(other);
      }
    }
    const fresh: KnownEntry = {
      id,
      path,
      rank,
      origin,
      epoch: this.#epoch,
      entry,
      transaction,
      state: { kind: 'fetching', error: undefined },
      fetched: known?.fetched,
      abort: new AbortController(),
    };
    this.#entries.set(fresh);
    this.#deps.status.joined(transaction, fresh);
    this.#obtain(fresh);
  }

  /** A base entry that is known already: looks whether its content is still the same. */
  #revalidate(entry: KnownEntry, transaction: string): void {
    const fixed =
      entry.origin === 'update' ||
      (entry.entry.data !== null && entry.entry.data !== undefined) ||
      entry.entry.save_method === 'DELETE';
    if (entry.state.kind === 'applied' && fixed) return;
    if (entry.state.kind === 'ready' || entry.state.kind === 'blocked') return;
    entry.transaction = transaction;
    this.#deps.status.joined(transaction, entry);
    entry.abort.abort();
    entry.abort = new AbortController();
    this.#obtain(entry);
  }

  /** Gets the content of an entry: at once when it is inline, else by fetching until it succeeds. */
  #obtain(entry: KnownEntry): void {
    const { data, save_method: method } = entry.entry;
    if (method === 'DELETE') this.#arrived(entry, undefined);
    else if (data !== null && data !== undefined) this.#arrived(entry, bodyOfText(data.text));
    else this.#own(this.#fetch(entry, entry.abort.signal));
  }

  async #fetch(entry: KnownEntry, signal: AbortSignal): Promise<void> {
    for (let attempt = 1; !signal.aborted; attempt++) {
      let waitMs: number;
      try {
        const previous = this.#deps.applier.layers.get(entry.id) === undefined ? undefined : entry.fetched;
        const result = await this.#deps.fetch(
          { url: entry.entry.url, config: entry.entry.config ?? null, ...(previous === undefined ? {} : { previous }) },
          signal,
        );
        if (signal.aborted) {
          if (result.outcome === 'body') await result.body.dispose();
          return;
        }
        attempt = 0;
        if (result.outcome === 'unchanged') this.#unchanged(entry);
        else {
          const { body, etag, lastModified } = result;
          const same = entry.fetched?.hash === body.hash && this.#deps.applier.layers.get(entry.id) !== undefined;
          entry.fetched = {
            hash: body.hash,
            ...(etag === undefined ? {} : { etag }),
            ...(lastModified === undefined ? {} : { lastModified }),
          };
          if (same) {
            await body.dispose();
            this.#unchanged(entry);
          } else this.#arrived(entry, body);
        }
        const interval = entry.entry.periodic_update_interval;
        if (interval === null || interval === undefined) return;
        waitMs = interval * 1000;
      } catch (error) {
        if (signal.aborted) return;
        this.#settle(entry, { kind: 'fetching', error: errorText(error) });
        const floorMs = error instanceof SyncError ? (error.retryAfterSeconds ?? 0) * 1000 : 0;
        // What is wrong with the answer itself is seldom mended within a second; it is tried for ever all the same.
        const lasting = error instanceof SyncError && !error.retryable;
        waitMs = backoffMs(attempt + (lasting ? LASTING_HEAD_START : 0), this.#backoff, floorMs);
        this.#deps.log[attempt <= 3 ? 'warn' : 'error'](
          { path: docPathText(entry.path), attempt, retry_in_ms: Math.round(waitMs), error: errorText(error) },
          'data source failed, will try again',
        );
      }
      try {
        await sleep(waitMs, signal);
      } catch {
        return; // The entry was dropped or the client stops: nobody waits for it any more.
      }
    }
  }

  /** The engine holds this content already; only its place in the order may be new. */
  #unchanged(entry: KnownEntry): void {
    const held = this.#deps.applier.layers.get(entry.id);
    if (held === undefined || held.content.kind !== 'put' || compareRank(held.rank, entry.rank) === 0) {
      this.#settle(entry, { kind: 'applied' });
    } else this.#arrived(entry, held.content.body);
  }

  #arrived(entry: KnownEntry, body: Body | undefined): void {
    if (entry.state.kind === 'ready') this.#own(entry.state.body?.dispose() ?? Promise.resolve());
    entry.state = { kind: 'ready', body, error: undefined };
    this.#ready.add(entry);
    this.#applyLoop.request();
  }

  /** Writes what has arrived, in batches; a batch that is refused is split until the guilty entry stands alone. */
  async #applyReady(): Promise<void> {
    for (let batch = this.#nextBatch(); batch.length > 0; batch = this.#nextBatch()) {
      try {
        await this.#deps.exclusive((signal) => this.#applyBatch(batch, signal));
      } catch (error) {
        for (const entry of batch) {
          if (entry.state.kind === 'ready' && this.#ready.has(entry)) {
            this.#settle(entry, { ...entry.state, error: errorText(error) });
          }
        }
        throw error;
      }
    }
  }

  #nextBatch(): KnownEntry[] {
    const waiting = this.#unresolved();
    const ranked = [...this.#ready].sort((a, b) => compareRank(a.rank, b.rank));
    const batch: KnownEntry[] = [];
    let bytes = 0;
    for (const entry of ranked) {
      if (entry.state.kind !== 'ready') continue;
      // Only a PATCH waits, for what it changes (design 9.1).
      const held =
        !entryReplaces(entry.entry) &&
        waiting.some((other) => compareRank(other.rank, entry.rank) < 0 && pathsOverlap(other.path, entry.path));
      if (held) continue;
      const size = entry.state.body?.sizeBytes ?? 0;
      if (batch.length > 0 && (batch.length >= BATCH_LAYERS || bytes + size > BATCH_BYTES)) break;
      batch.push(entry);
      bytes += size;
    }
    return batch;
  }

  #unresolved(): KnownEntry[] {
    const patches = [...this.#ready].filter((entry) => !entryReplaces(entry.entry));
    return patches.flatMap((patch) =>
      this.#entries.overlapping(patch.path).filter((other) => other.state.kind === 'fetching'),
    );
  }

  async #applyBatch(batch: readonly KnownEntry[], signal: AbortSignal): Promise<void> {
    const current = batch.filter((entry) => entry.state.kind === 'ready' && this.#entries.get(entry.id) === entry);
    const layers: Layer[] = [];
    const applied: KnownEntry[] = [];
    for (const entry of current) {
      if (entry.state.kind !== 'ready') continue;
      try {
        layers.push({ id: entry.id, path: entry.path, rank: entry.rank, content: contentOf(entry, entry.state.body) });
        applied.push(entry);
      } catch (error) {
        if (!(error instanceof PatchRefused || error instanceof EngineRefusal)) throw error;
        this.#refused(entry, error.message);
      }
    }
    if (layers.length === 0) return;
    const previous = layers.flatMap((layer) => this.#deps.applier.layers.get(layer.id) ?? []);
    try {
      const dropped = await this.#deps.applier.applyLayers({ set: layers, drop: [] }, signal);
      const kept = new Set(applied.map((entry) => (entry.state.kind === 'ready' ? entry.state.body : undefined)));
      for (const layer of previous)
        if (layer.content.kind !== 'put' || !kept.has(layer.content.body)) await disposeLayer(layer);
      await this.#release(dropped);
      for (const entry of applied) {
        this.#ready.delete(entry);
        this.#settle(entry, { kind: 'applied' });
      }
      const paths = layers.map((layer) => layer.path);
      await this.#retryBlocked(paths, signal);
      this.#deps.onApplied(paths);
    } catch (error) {
      if (!(error instanceof EngineRefusal)) throw error;
      const [first, ...rest] = applied;
      if (first === undefined) throw error;
      if (rest.length === 0) {
        const [layer] = layers;
        if (layer === undefined) throw error;
        await this.#release(await this.#deps.applier.withhold(layer, refusalText(error), signal));
        this.#refused(first, refusalText(error));
        return;
      }
      const half = Math.ceil(applied.length / 2);
      await this.#applyBatch(applied.slice(0, half), signal);
      await this.#applyBatch(applied.slice(half), signal);
    }
  }

  /** Lets go of layers that the engine no longer holds. */
  async #release(layers: readonly Layer[]): Promise<void> {
    for (const layer of layers) {
      const entry = this.#entries.get(layer.id);
      if (entry !== undefined) this.#forget(entry);
      await disposeLayer(layer);
    }
  }

  /** Tries withheld documents again that overlap what has just changed (design 9.2); each success may free others. */
  async #retryBlocked(changed: readonly DocPath[], signal: AbortSignal): Promise<void> {
    const { applier } = this.#deps;
    for (const { layer } of [...applier.blocked.values()]) {
      const entry = this.#entries.get(layer.id);
      if (entry === undefined || !changed.some((path) => pathsOverlap(path, layer.path))) continue;
      try {
        await applier.applyLayers({ set: [layer], drop: [] }, signal);
      } catch (error) {
        if (!(error instanceof EngineRefusal)) throw error;
        await this.#release(await applier.withhold(layer, refusalText(error), signal));
        continue;
      }
      this.#settle(entry, { kind: 'applied' });
      await this.#retryBlocked([layer.path], signal);
    }
  }

  #refused(entry: KnownEntry, reason: string): void {
    this.#ready.delete(entry);
    this.#deps.log.warn({ path: docPathText(entry.path), error: reason }, 'data is withheld: the engine refuses it');
    this.#settle(entry, { kind: 'blocked', error: reason });
  }

  #settle(entry: KnownEntry, state: KnownEntry['state']): void {
    const fetching = entry.state.kind === 'fetching';
    entry.state = state;
    this.#deps.status.settled(entry);
    if (fetching && state.kind !== 'fetching') this.#stoppedFetching();
  }

  /** A patch that is ready may have waited for just this entry. */
  #stoppedFetching(): void {
    if (this.#ready.size > 0) this.#applyLoop.request();
  }

  #forget(entry: KnownEntry): void {
    this.#entries.delete(entry.id);
    this.#ready.delete(entry);
    entry.abort.abort();
    if (entry.state.kind === 'ready') this.#own(entry.state.body?.dispose() ?? Promise.resolve());
    this.#deps.status.forgotten(entry);
    if (entry.state.kind === 'fetching') this.#stoppedFetching();
  }

  #isDuplicate(topic: string, text: string): boolean {
    const now = Date.now();
    for (const [key, seen] of this.#recent) if (now - seen.atMs > DUPLICATE_WINDOW_MS) this.#recent.delete(key);
    const key = createHash('sha256').update(text).digest('base64url');
    const seen = this.#recent.get(key);
    if (seen !== undefined && !seen.topics.has(topic)) {
      seen.topics.add(topic);
      return true;
    }
    this.#recent.set(key, { topics: new Set([topic]), atMs: now });
    return false;
  }

  /** Keeps hold of a promise until it settles, so that a stop can wait for it; its failures are handled by its maker. */
  #own(promise: Promise<unknown>): void {
    if (this.#stopped) return;
    const task: Promise<void> = promise.then(
      () => {
        this.#tasks.delete(task);
      },
      (error: unknown) => {
        this.#tasks.delete(task);
        this.#deps.log.error({ error: errorText(error) }, 'unexpected failure in the data updater');
      },
    );
    this.#tasks.add(task);
  }
}

function contentOf(entry: KnownEntry, body: Body | undefined): LayerContent {
  if (body === undefined) return { kind: 'delete' };
  if (entry.entry.save_method === 'PATCH') return { kind: 'patch', ops: parsePatch(body.text().trim()) };
  if (entry.path.length === 0 && !body.text().trimStart().startsWith('{')) {
    throw new EngineRefusal('the document of the root path must be an object', []);
  }
  return { kind: 'put', body };
}

async function disposeLayer(layer: Layer): Promise<void> {
  if (layer.content.kind === 'put') await layer.content.body.dispose();
}

function refusalText(error: EngineRefusal): string {
  const places = error.problems.map(
    (problem) =>
      `${problem.file === undefined ? '' : `${problem.file}${problem.row === undefined ? '' : `:${problem.row}`}: `}${problem.message}`,
  );
  return places.length > 0 ? places.join('; ') : error.message;
}
