import { type BackoffOptions, sleep } from '../../lib/async.js';
import { errorText, failureFields, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import { RetryLoop } from '../../lib/retry-loop.js';
import type { TaskSet } from '../../lib/task-set.js';
import { type DocPath, docPathText, pathsOverlap } from '../../wire/doc-path.js';
import type { Body } from '../../wire/json-node.js';
import { PatchRefused, parsePatch } from '../../wire/json-patch.js';
import { compareRank, type Layer, type LayerContent } from '../desired/layers.js';
import { EngineRefusal } from '../engine/engine.js';
import type { Applier } from './applier.js';
import { entryReplaces, type KnownEntry } from './entry.js';
import type { EntryTable } from './entry-table.js';

/** Layers of one engine transaction at most, and the sum of their bytes: requests stay bounded whatever has piled up. */
const BATCH_LAYERS = 500;
const BATCH_BYTES = 4 * 1024 * 1024;

/** So many entries on their way are a wave, as at a start: what arrives shortly after each other is written together. */
const WAVE = 20;
/** Shortly: within this time after the one before. */
const LULL_MS = 10;
/** So long the first one waits at most. */
const GATHER_MS = 50;

/** Runs one engine step at a time, after the engine has our state. */
export type Exclusive = <T>(step: (signal: AbortSignal) => Promise<T>) => Promise<T>;

/** What the writer of entries works with. */
export interface EntryWriterDeps {
  readonly applier: Applier;
  readonly exclusive: Exclusive;
  readonly table: EntryTable;
  readonly tasks: TaskSet;
  readonly log: Logger;
}

/** Hands contents that have arrived to the engine, in rank order, many small ones in one transaction. */
export class EntryWriter {
  readonly #deps: EntryWriterDeps;
  readonly #ready = new Set<KnownEntry>();
  /** Bodies that a write under way reads: they stay until it has ended. */
  readonly #writing = new Set<Body>();
  readonly #discarded = new Set<Body>();
  /** Entries whose last write failed without a verdict: they go alone and last, so that they hold up nobody. */
  readonly #troubled = new Set<KnownEntry>();
  readonly #loop: RetryLoop;

  constructor(options: { backoff: BackoffOptions }, deps: EntryWriterDeps) {
    this.#deps = deps;
    this.#loop = new RetryLoop('writing data to the engine', options.backoff, deps.log, (signal) =>
      this.#writeReady(signal),
    );
  }

  get loop(): RetryLoop {
    return this.#loop;
  }

  /** Takes the content of an entry; undefined for DELETE. */
  arrived(entry: KnownEntry, body: Body | undefined): void {
    const before = entry.state.kind === 'ready' ? entry.state.body : undefined;
    if (before !== undefined && before !== body) this.discard(before);
    this.#ready.add(entry);
    this.#deps.table.settle(entry, { kind: 'ready', body, error: undefined });
    this.#loop.request();
  }

  /** Lets go of a body that nobody wants any more. */
  discard(body: Body): void {
    if (this.#writing.has(body)) this.#discarded.add(body);
    else this.#deps.tasks.add(body.dispose());
  }

  /** Looks again: an entry that a patch waited for has arrived, or is gone. */
  look(): void {
    if (this.#ready.size > 0) this.#loop.request();
  }

  /** Removes the document of an entry that is no longer desired; false: that failed. Never rejects. */
  async retire(entry: KnownEntry): Promise<boolean> {
    const { applier, exclusive, log, table } = this.#deps;
    try {
      await exclusive(async (signal) => {
        if (table.get(entry.id) !== undefined) return; // Listed again meanwhile: the new one takes the document over.
        await this.#release(await applier.applyLayers({ set: [], drop: [entry.id] }, signal));
        await this.#retryBlocked([entry.path], signal);
      });
      log.info({ path: docPathText(entry.path) }, 'document removed: its entry is no longer desired');
      return true;
    } catch (error) {
      log.warn(
        { path: docPathText(entry.path), ...failureFields(error) },
        'a document could not be removed; the next read of the configuration tries again',
      );
      return false;
    }
  }

  /** Writes what has arrived, in batches; a batch that is refused is split until the guilty entry stands alone. */
  async #writeReady(stop: AbortSignal): Promise<void> {
    for (;;) {
      await this.#gather(stop);
      const batch = this.#nextBatch();
      if (batch.length === 0) return;
      try {
        await this.#deps.exclusive((signal) => this.#writeBatch(batch, signal));
      } catch (error) {
        stop.throwIfAborted(); // a stop that was asked for is no failure of what waits
        for (const entry of batch) {
          this.#troubled.add(entry);
          if (entry.state.kind === 'ready' && this.#ready.has(entry)) {
            this.#deps.table.settle(entry, { ...entry.state, error: errorText(error) });
          }
        }
        throw error;
      }
    }
  }

  /** In a wave a transaction for each few entries would cost more than their contents; outside of one nothing waits. */
  async #gather(stop: AbortSignal): Promise<void> {
    const [ready, { table }] = [this.#ready, this.#deps];
    const deadline = performance.now() + GATHER_MS;
    let before = 0;
    while (ready.size > before && ready.size < BATCH_LAYERS && table.arriving >= WAVE && performance.now() < deadline) {
      before = ready.size;
      await sleep(LULL_MS, stop);
    }
  }

  #nextBatch(): KnownEntry[] {
    for (const entry of this.#ready) {
      if (entry.state.kind !== 'ready' || !this.#deps.table.holds(entry)) this.#ready.delete(entry);
    }
    for (const entry of this.#troubled) if (!this.#ready.has(entry)) this.#troubled.delete(entry);
    const batch: KnownEntry[] = [];
    let bytes = 0;
    for (const entry of [...this.#ready].sort((a, b) => this.#order(a, b))) {
      if (entry.state.kind !== 'ready' || this.#waits(entry)) continue;
      const size = entry.state.body?.sizeBytes ?? 0;
      const isFull = batch.length >= BATCH_LAYERS || bytes + size > BATCH_BYTES;
      if (batch.length > 0 && (isFull || this.#troubled.has(entry))) break;
      batch.push(entry);
      bytes += size;
    }
    return batch;
  }

  #order(a: KnownEntry, b: KnownEntry): number {
    return Number(this.#troubled.has(a)) - Number(this.#troubled.has(b)) || compareRank(a.rank, b.rank);
  }

  /** Only a PATCH waits: for an earlier document that it changes and that the engine does not hold yet (design D7). */
  #waits(entry: KnownEntry): boolean {
    if (entryReplaces(entry.entry)) return false;
    return this.#deps.table
      .overlapping(entry.path)
      .some(
        (other) =>
          other.state.kind === 'fetching' &&
          compareRank(other.rank, entry.rank) < 0 &&
          this.#deps.applier.layers.get(other.id) === undefined,
      );
  }

  async #writeBatch(batch: readonly KnownEntry[], signal: AbortSignal): Promise<void> {
    const { applier, table } = this.#deps;
    const layers: Layer[] = [];
    const written: KnownEntry[] = [];
    for (const entry of batch) {
      if (entry.state.kind !== 'ready' || !table.holds(entry)) continue;
      try {
        layers.push({ id: entry.id, path: entry.path, rank: entry.rank, content: contentOf(entry, entry.state.body) });
        written.push(entry);
      } catch (error) {
        if (!(error instanceof PatchRefused || error instanceof EngineRefusal)) throw error;
        this.#refused(entry, error.message);
      }
    }
    if (layers.length === 0) return;
    const previous = layers.flatMap(({ id }) => [applier.layers.get(id), applier.blocked.get(id)?.layer]);
    const taken = new Map(written.map((entry) => [entry, entry.state]));
    const bodies = written.flatMap(({ state }) =>
      state.kind === 'ready' && state.body !== undefined ? [state.body] : [],
    );
    for (const body of bodies) this.#writing.add(body);
    let dropped: readonly Layer[] | undefined;
    let refusal: EngineRefusal | undefined;
    try {
      dropped = await applier.applyLayers({ set: layers, drop: [] }, signal);
    } catch (error) {
      refusal = asRefusal(error);
      if (refusal === undefined) throw error;
    } finally {
      for (const body of bodies) {
        this.#writing.delete(body);
        if (this.#discarded.delete(body) && dropped === undefined) await body.dispose();
      }
    }
    if (dropped === undefined) {
      await this.#splitRefused(layers, written, refusal ?? new EngineRefusal('refused', []), signal);
      return;
    }
    const kept = new Set(layers.map((layer) => (layer.content.kind === 'put' ? layer.content.body : undefined)));
    for (const layer of previous) {
      if (layer?.content.kind === 'put' && !kept.has(layer.content.body)) await layer.content.body.dispose();
    }
    await this.#release(dropped);
    for (const entry of written) {
      // Something newer may have arrived meanwhile: that is for the next batch.
      const state = taken.get(entry);
      if (entry.state !== state || state?.kind !== 'ready') continue;
      this.#ready.delete(entry);
      table.settle(entry, { kind: 'applied' });
      if (entry.entry.save_method === 'PATCH') await state.body?.dispose();
    }
    await this.#retryBlocked(
      layers.map((layer) => layer.path),
      signal,
    );
  }

  async #splitRefused(
    layers: readonly Layer[],
    written: readonly KnownEntry[],
    error: EngineRefusal,
    signal: AbortSignal,
  ): Promise<void> {
    const [layer, ...moreLayers] = layers;
    const [entry] = written;
    if (layer === undefined || entry === undefined) throw error;
    if (moreLayers.length === 0) {
      const before = this.#deps.applier.blocked.get(layer.id)?.layer.content;
      await this.#release(await this.#deps.applier.withhold(layer, refusalText(error), signal));
      const { content } = layer;
      const isReplaced = before?.kind === 'put' && !(content.kind === 'put' && content.body === before.body);
      if (isReplaced) await before.body.dispose();
      this.#refused(entry, refusalText(error));
      return;
    }
    const half = Math.ceil(written.length / 2);
    await this.#writeBatch(written.slice(0, half), signal);
    await this.#writeBatch(written.slice(half), signal);
  }

  /** Tries withheld documents again that overlap what has just changed (design D10); each success may free others. */
  async #retryBlocked(changed: readonly DocPath[], signal: AbortSignal): Promise<void> {
    const { applier, table } = this.#deps;
    for (const { layer } of [...applier.blocked.values()]) {
      const entry = table.get(layer.id);
      // What is ready has newer content than the one that is withheld: the writer brings that in.
      if (
        entry === undefined ||
        entry.state.kind === 'ready' ||
        !changed.some((path) => pathsOverlap(path, layer.path))
      )
        continue;
      try {
        await this.#release(await applier.applyLayers({ set: [layer], drop: [] }, signal));
      } catch (error) {
        if (!(error instanceof EngineRefusal)) throw error;
        await this.#release(await applier.withhold(layer, refusalText(error), signal));
        continue;
      }
      table.settle(entry, { kind: 'applied' });
      await this.#retryBlocked([layer.path], signal);
    }
  }

  /** Lets go of layers that the engine no longer holds. */
  async #release(layers: readonly Layer[]): Promise<void> {
    for (const layer of layers) {
      const entry = this.#deps.table.get(layer.id);
      if (entry !== undefined && compareRank(entry.rank, layer.rank) === 0) this.#deps.table.forget(entry);
      if (layer.content.kind === 'put') await layer.content.body.dispose();
    }
  }

  #refused(entry: KnownEntry, reason: string): void {
    this.#ready.delete(entry);
    this.#deps.log.warn(
      { path: docPathText(entry.path), ...failureFields(new SyncError('engine_refused', reason)) },
      'data is withheld: the engine refuses it',
    );
    this.#deps.table.settle(entry, { kind: 'blocked', error: reason });
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

/** A verdict that trying again does not change: the engine's, or that the content cannot be worked with. */
function asRefusal(error: unknown): EngineRefusal | undefined {
  if (error instanceof EngineRefusal) return error;
  return error instanceof SyncError && !error.retryable ? new EngineRefusal(error.message, []) : undefined;
}

function refusalText(error: EngineRefusal): string {
  const places = error.problems.map(({ file, row, message }) => {
    const place = file === undefined ? '' : `${file}${row === undefined ? '' : `:${row}`}: `;
    return place + message;
  });
  return places.length > 0 ? places.join('; ') : error.message;
}
