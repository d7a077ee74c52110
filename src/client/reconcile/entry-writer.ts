import { EngineRefusal } from '../../embedded/vocabulary.js';
import { errorText, failureFields, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { type BackoffOptions, sleep, type TaskSet } from '../../lib/run/async.js';
import { RetryLoop } from '../../lib/run/retry-loop.js';
import { type DocPath, docPathText, parsePointer, pathsOverlap } from '../../wire/doc-path.js';
import type { Body } from '../../wire/json-node.js';
import { PatchRefused, parsePatch } from '../../wire/json-patch.js';
import type { EntryEvent, ReadyState } from '../desired/entry-state.js';
import { type Entries, entryReplaces, type KnownEntry } from '../desired/entry-table.js';
import { compareRank, type Layer, type LayerContent } from '../desired/layers.js';
import type { Applier } from './applier.js';
import { refusalReason } from './collisions.js';
import type { EntryTraces } from './entry-traces.js';

/**
 * Layers of one engine transaction at most, and the sum of their bytes: requests stay bounded
 * whatever has piled up.
 */
const BATCH_LAYERS = 500;
const BATCH_BYTES = 4 * 1024 * 1024;

/**
 * This many entries on their way are a wave, as at a start: what arrives shortly after each other
 * is written together.
 */
const WAVE = 20;
/** Shortly after each other: within this time. */
const LULL_MS = 10;
/** Longest wait of the first one. */
const GATHER_MS = 50;

/** Runs one engine step at a time, after the engine has our state. */
export type Exclusive = <T>(step: (signal: AbortSignal) => Promise<T>) => Promise<T>;

/** See {@link EntryWriter.withDocuments}. */
export type WithDocuments = (step: (documents: () => readonly Layer[]) => Promise<void>) => Promise<void>;

/** What {@link EntryWriter} works with. */
export interface EntryWriterDeps {
  readonly applier: Applier;
  readonly exclusive: Exclusive;
  readonly table: Entries;
  readonly tasks: TaskSet;
  readonly traces?: EntryTraces | undefined;
  readonly apply: (entry: KnownEntry, event: EntryEvent) => void;
  /** An entry is dropped for one (`by`) that the engine refuses: it holds neither. */
  readonly replaced: (id: string, by: string) => void;
  readonly log: Logger;
}

/** A write of an entry, and the state whose content is written. */
interface Write {
  readonly entry: KnownEntry;
  readonly of: ReadyState;
  readonly layer: Layer;
}

/**
 * Hands contents that have arrived to the engine, in rank order, many small ones in one
 * transaction.
 */
export class EntryWriter {
  /** The loop that writes to the engine. */
  readonly loop: RetryLoop;
  readonly #deps: EntryWriterDeps;
  readonly #ready = new Set<KnownEntry>();
  /** Bodies that a write under way reads: none is disposed of before it ends. */
  readonly #writing = new Set<Body>();
  readonly #discarded = new Set<Body>();
  /**
   * Entries whose last write failed without a verdict: they are written alone and last, so that
   * they hold up no other.
   */
  readonly #troubled = new Set<KnownEntry>();

  constructor(options: { backoff: BackoffOptions }, deps: EntryWriterDeps) {
    this.#deps = deps;
    this.loop = new RetryLoop('writing data to the engine', options.backoff, deps.log, (signal) =>
      this.#writeReady(signal),
    );
  }

  /** Takes an entry that has become ready. */
  write(entry: KnownEntry): void {
    this.#ready.add(entry);
    this.loop.request();
  }

  /** Disposes of a body that nobody holds, once no write reads it. */
  discard(body: Body): void {
    if (this.#writing.has(body)) this.#discarded.add(body);
    else this.#deps.tasks.add(body.dispose());
  }

  /**
   * Looks what can be written: an entry that a patch waited for has arrived, or is gone; or there
   * is a first policy.
   */
  recheck(): void {
    if (this.#ready.size > 0) this.loop.request();
  }

  /**
   * Removes the document of an entry that is no longer desired; false: that failed. Never rejects.
   */
  async remove(entry: KnownEntry): Promise<boolean> {
    const { applier, exclusive, log, table } = this.#deps;
    try {
      await exclusive(async (signal) => {
        if (table.get(entry.id) !== undefined) return; // Listed again meanwhile: the new one replaces the document.
        await this.#release(await applier.applyLayers({ set: [], drop: [entry.id] }, signal));
        await this.#retryBlocked([entry.path], signal);
        this.#tellWithheld();
      });
      log.info({ path: docPathText(entry.path) }, 'document removed: its entry is no longer listed');
      return true;
    } catch (error) {
      log.warn(
        { path: docPathText(entry.path), ...failureFields(error) },
        'a document could not be removed; the next read of the configuration retries',
      );
      return false;
    }
  }

  /**
   * Forgets deletions that stand over nothing: the engine has what it had. Never rejects: those
   * that are not forgotten stay.
   */
  async forget(entries: readonly KnownEntry[]): Promise<void> {
    const { applier, exclusive, log, table } = this.#deps;
    try {
      for (let at = 0; at < entries.length; at += BATCH_LAYERS) {
        await exclusive(async (signal) => {
          const ids = entries.slice(at, at + BATCH_LAYERS).map(({ id }) => id);
          const drop = ids.filter((id) => table.get(id)?.state.kind === 'applied');
          await this.#release(await applier.applyLayers({ set: [], drop }, signal));
        });
      }
    } catch (error) {
      log.debug({ error: errorText(error) }, 'deletions that stand over nothing are kept');
    }
  }

  /**
   * Runs a step that gives the engine its first policy together with what has arrived, which the
   * step may ask for again and again. Where nothing waits for the policy there is nothing to ask
   * for.
   */
  readonly withDocuments: WithDocuments = async (step) => {
    const { applier } = this.#deps;
    if (applier.held.takesDocuments) return await step(() => []);
    const bodies = new Set<Body>();
    let writes: readonly Write[] = [];
    const documents = (): readonly Layer[] => {
      writes = this.#writesOf([...this.#writable()]);
      for (const body of writes.flatMap(({ of }) => of.body ?? [])) {
        bodies.add(body);
        this.#writing.add(body);
      }
      return writes.map(({ layer }) => layer);
    };
    let kept: ReadonlySet<Body> = new Set();
    try {
      await this.#applied([...this.#writable()], () => step(documents));
      kept = new Set(
        [...applier.held.layers.all(), ...[...applier.held.blocked.values()].map(({ layer }) => layer)].flatMap(bodyOf),
      );
      for (const { entry, of, layer } of writes) {
        const keepsBody = isKept(of, kept);
        const withheld = applier.held.blocked.get(layer.id);
        if (applier.held.layers.get(layer.id) === layer) this.#settle(entry, { kind: 'written', of, keepsBody });
        else if (withheld?.layer === layer)
          this.#refused(entry, { kind: 'refused', of, error: withheld.reason, keepsBody });
      }
    } finally {
      for (const body of bodies) {
        this.#writing.delete(body);
        if (this.#discarded.delete(body) && !kept.has(body)) await body.dispose();
      }
    }
  };

  /**
   * Writes what has arrived, in batches. A refused batch is halved until the refused entry is
   * alone.
   */
  async #writeReady(stop: AbortSignal): Promise<void> {
    // Before the first policy it is not known where rules come: see `recheck`.
    while (this.#deps.applier.held.takesDocuments) {
      await this.#gather(stop);
      const batch = this.#nextBatch();
      if (batch.length === 0) return;
      try {
        await this.#deps.exclusive((signal) => this.#writeBatch(batch, signal));
      } catch (error) {
        stop.throwIfAborted(); // a stop is no failure of what waits
        for (const entry of batch) {
          this.#troubled.add(entry);
          this.#deps.apply(entry, { kind: 'write_failed', error: errorText(error) });
        }
        throw error;
      }
    }
  }

  /**
   * In a wave a transaction for each few entries would cost more than their contents; outside of
   * one nothing waits.
   */
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
    const batch: KnownEntry[] = [];
    let bytes = 0;
    for (const entry of this.#writable()) {
      const size = (entry.state.kind === 'ready' ? entry.state.body?.sizeBytes : 0) ?? 0;
      const isFull = batch.length >= BATCH_LAYERS || bytes + size > BATCH_BYTES;
      if (batch.length > 0 && (isFull || this.#troubled.has(entry))) break;
      batch.push(entry);
      bytes += size;
    }
    return batch;
  }

  /** What is ready and waits for nothing else, in the order in which it is written. */
  *#writable(): Generator<KnownEntry> {
    for (const entry of this.#ready) if (entry.state.kind !== 'ready') this.#ready.delete(entry);
    for (const entry of this.#troubled) if (!this.#ready.has(entry)) this.#troubled.delete(entry);
    const isTroubled = (entry: KnownEntry): number => Number(this.#troubled.has(entry));
    const ordered = [...this.#ready].sort((a, b) => isTroubled(a) - isTroubled(b) || compareRank(a.rank, b.rank));
    for (const entry of ordered) if (!this.#waits(entry)) yield entry;
  }

  /**
   * Only a PATCH waits: for an earlier document that it changes and that the engine does not hold
   * yet (design D7).
   */
  #waits(entry: KnownEntry): boolean {
    if (entryReplaces(entry.entry)) return false;
    return this.#deps.table
      .overlapping(entry.path)
      .some(
        (other) =>
          other.state.kind === 'fetching' &&
          compareRank(other.rank, entry.rank) < 0 &&
          this.#deps.applier.held.layers.get(other.id) === undefined,
      );
  }

  async #writeBatch(batch: readonly KnownEntry[], signal: AbortSignal): Promise<void> {
    const { applier } = this.#deps;
    if (!applier.held.takesDocuments) return; // the first policy was refused after all
    const writes = this.#writesOf(batch);
    if (writes.length === 0) return;
    const bodies = writes.flatMap(({ of }) => of.body ?? []);
    /** Bodies that layers hold after the write. */
    const kept = new Set<Body>();
    for (const body of bodies) this.#writing.add(body);
    try {
      const layers = writes.map(({ layer }) => layer);
      const previous = layers.flatMap(({ id }) => [applier.held.layers.get(id), applier.held.blocked.get(id)?.layer]);
      let dropped: readonly Layer[];
      try {
        const entries = writes.map(({ entry }) => entry);
        dropped = await this.#applied(entries, () => applier.applyLayers({ set: layers, drop: [] }, signal));
      } catch (error) {
        const refusal = asRefusal(error);
        if (refusal === undefined) throw error;
        await this.#splitRefused(writes, kept, refusal, signal);
        return;
      }
      for (const body of layers.flatMap(bodyOf)) kept.add(body);
      for (const body of previous.flatMap(bodyOf)) if (!kept.has(body)) await body.dispose();
      await this.#release(dropped);
      for (const { entry, of } of writes) this.#settle(entry, { kind: 'written', of, keepsBody: isKept(of, kept) });
      const changed = layers.map(({ path }) => path);
      await this.#retryBlocked(changed, signal);
      this.#tellWithheld();
    } finally {
      for (const body of bodies) {
        this.#writing.delete(body);
        if (this.#discarded.delete(body) && !kept.has(body)) await body.dispose();
      }
    }
  }

  #applied<T>(entries: readonly KnownEntry[], work: () => Promise<T>): Promise<T> {
    return this.#deps.traces?.apply(entries, work) ?? work();
  }

  #writesOf(batch: readonly KnownEntry[]): Write[] {
    const writes: Write[] = [];
    for (const entry of batch) {
      const { id, path, rank, state: of } = entry;
      if (of.kind !== 'ready') continue;
      try {
        writes.push({ entry, of, layer: { id, path, rank, content: contentOf(entry, of.body) } });
      } catch (error) {
        if (!(error instanceof PatchRefused || error instanceof EngineRefusal)) throw error;
        this.#refused(entry, { kind: 'refused', of, error: error.message, keepsBody: false });
      }
    }
    return writes;
  }

  async #splitRefused(
    writes: readonly Write[],
    kept: Set<Body>,
    error: EngineRefusal,
    signal: AbortSignal,
  ): Promise<void> {
    const [write, ...more] = writes;
    if (write === undefined) throw error;
    if (more.length > 0) {
      const entries = writes.map(({ entry }) => entry);
      const half = Math.ceil(entries.length / 2);
      await this.#writeBatch(entries.slice(0, half), signal);
      await this.#writeBatch(entries.slice(half), signal);
      return;
    }
    const { entry, of, layer } = write;
    // Newer content has arrived: the next batch has it.
    if (entry.state !== of) return;
    const { applier } = this.#deps;
    const before = bodyOf(applier.held.blocked.get(layer.id)?.layer);
    const reason = refusalReason(error);
    await this.#withhold(layer, reason, signal);
    for (const body of bodyOf(layer)) kept.add(body);
    for (const body of before) if (!kept.has(body)) await body.dispose();
    this.#refused(entry, { kind: 'refused', of, error: reason, keepsBody: isKept(of, kept) });
    this.#tellWithheld();
  }

  /** What came to light where a policy is, since what had covered it is gone. */
  #tellWithheld(): void {
    const { applier, table, apply } = this.#deps;
    for (const { layer, reason } of applier.held.blocked.values()) {
      const entry = table.get(layer.id);
      if (entry?.state.kind === 'applied') apply(entry, { kind: 'withheld', error: reason });
    }
  }

  /**
   * Retries withheld documents that overlap what has just changed (design D10); each success may
   * admit others.
   */
  async #retryBlocked(changed: readonly DocPath[], signal: AbortSignal): Promise<void> {
    const { applier, table, apply } = this.#deps;
    for (const { layer } of [...applier.held.blocked.values()]) {
      const entry = table.get(layer.id);
      // A ready entry has newer content than the withheld layer.
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
        await this.#withhold(layer, refusalReason(error), signal);
        continue;
      }
      apply(entry, { kind: 'admitted' });
      await this.#retryBlocked([layer.path], signal);
    }
  }

  /** What the engine refuses replaces what is older all the same. */
  async #withhold(layer: Layer, reason: string, signal: AbortSignal): Promise<void> {
    const { applier, replaced } = this.#deps;
    const dropped = await applier.withhold(layer, reason, signal);
    for (const { id } of dropped) replaced(id, layer.id);
    await this.#release(dropped);
  }

  /** Drops entries and bodies of layers that the engine no longer holds. */
  async #release(layers: readonly Layer[]): Promise<void> {
    for (const layer of layers) {
      const entry = this.#deps.table.get(layer.id);
      if (entry !== undefined && compareRank(entry.rank, layer.rank) === 0)
        this.#deps.apply(entry, { kind: 'dropped' });
      for (const body of bodyOf(layer)) await body.dispose();
    }
  }

  #refused(entry: KnownEntry, event: EntryEvent & { kind: 'refused' }): void {
    this.#deps.log.warn(
      { path: docPathText(entry.path), ...failureFields(new SyncError('engine_refused', event.error)) },
      'data is withheld: the engine refuses it',
    );
    this.#settle(entry, event);
  }

  #settle(entry: KnownEntry, event: EntryEvent): void {
    this.#deps.apply(entry, event);
    if (entry.state.kind !== 'ready') this.#ready.delete(entry);
  }
}

/** The body that a layer holds, if any. */
function bodyOf(layer: Layer | undefined): Body[] {
  return layer?.content.kind === 'put' ? [layer.content.body] : [];
}

function isKept({ body }: ReadyState, kept: ReadonlySet<Body>): boolean {
  return body !== undefined && kept.has(body);
}

function contentOf(entry: KnownEntry, body: Body | undefined): LayerContent {
  if (body === undefined) return { kind: 'delete', ...(entry.entry.only_removes === true && { onlyRemoves: true }) };
  if (entry.entry.save_method === 'PATCH') return { kind: 'patch', ops: parsePatch(body.text().trim()) };
  if (entry.path.length === 0 && !body.text().trimStart().startsWith('{')) {
    throw new EngineRefusal('the document of the root path must be an object', []);
  }
  const { implied } = entry.entry;
  return { kind: 'put', body, ...(implied === undefined ? {} : { implied: implied.map(parsePointer) }) };
}

/** A refusal of the engine, or a failure of the content itself; undefined for what may pass. */
function asRefusal(error: unknown): EngineRefusal | undefined {
  if (error instanceof EngineRefusal) return error;
  return error instanceof SyncError && !error.retryable ? new EngineRefusal(error.message, []) : undefined;
}
