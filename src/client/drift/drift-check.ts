import { createHash } from 'node:crypto';
import { EngineRefusal } from '../../embedded/vocabulary.js';
import { errorText, failureFields } from '../../lib/errors.js';
import { outermost, PathTree } from '../../lib/json/path-tree.js';
import type { Logger } from '../../lib/observe/log.js';
import { isAbort, sleep, Wakeup } from '../../lib/run/async.js';
import { type DocPath, docPathText, isAtOrBelow, pathsOverlap } from '../../wire/doc-path.js';
import { membersOf } from '../../wire/json-node.js';
import type { LayerSet } from '../desired/layers.js';
import type { PolicyEngine } from '../engine/engine.js';
import { packageRoots } from '../engine/modules/bundle-roots.js';
import type { EngineCopy } from '../reconcile/engine-copy.js';
import type { Exclusive } from '../reconcile/entry-writer.js';

/** Dependencies of {@link DriftCheck}. */
export interface DriftCheckDeps {
  readonly held: Pick<EngineCopy, 'layers' | 'policy' | 'rewrite' | 'tidy' | 'watch'>;
  readonly engine: Pick<PolicyEngine, 'read' | 'reserved'>;
  readonly exclusive: Exclusive;
  readonly log: Logger;
}

/** State of the drift check, for status. */
export interface DriftState {
  /** Time of the last full check, in milliseconds since 1970. */
  readonly checkedMs: number | undefined;
  /** Number of compared documents. */
  readonly documents: number;
  /** Number of documents and modules repaired since the start. */
  readonly repaired: number;
  /** Why the last check failed, or which documents it could not compare. */
  readonly error: string | undefined;
}

/** Writes within this time are read back together. */
const RECORD_DELAY_MS = 200;
/** Beyond this many written paths, everything is read back: matching them would cost more. */
const MANY_PATHS = 200;
/** Most places that an error names. */
const SHOWN = 5;

/**
 * Detects documents that others have changed in the engine (design D35): records the hash of OPA's
 * response after each write, compares it with the same query at an interval, and rewrites documents
 * that differ. For the places, see {@link ComparedPlaces}.
 */
export class DriftCheck {
  readonly #intervalMs: number;
  readonly #recordDelayMs: number;
  readonly #deps: DriftCheckDeps;
  readonly #wakeup = new Wakeup();
  readonly #places = new ComparedPlaces();
  readonly #hashes = new Map<string, string>();
  #written: DocPath[] = [];
  #checkedMs: number | undefined;
  #repaired = 0;
  #error: string | undefined;
  /** Places that could not be compared, by name: why not. */
  readonly #failed = new Map<string, string>();
  /** Called at the end of the next check. */
  #asked: (() => void)[] = [];

  constructor(options: { intervalMs: number; recordDelayMs?: number }, deps: DriftCheckDeps) {
    this.#intervalMs = options.intervalMs;
    this.#recordDelayMs = options.recordDelayMs ?? RECORD_DELAY_MS;
    this.#deps = deps;
    deps.held.watch((paths) => {
      for (const path of paths) this.#written.push(path);
      this.#wakeup.set();
    });
  }

  get state(): DriftState {
    return {
      checkedMs: this.#checkedMs,
      documents: this.#hashes.size - [...this.#failed.keys()].filter((name) => this.#hashes.has(name)).length,
      repaired: this.#repaired,
      error: this.#error,
    };
  }

  /**
   * Checks now; resolves with the state after that, also if the check failed. Does not settle if
   * {@link run} has ended.
   */
  async check(): Promise<DriftState> {
    const done = new Promise<void>((resolve) => {
      this.#asked.push(resolve);
    });
    this.#wakeup.set();
    await done;
    return this.state;
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    let nextMs = performance.now() + this.#intervalMs;
    try {
      for (;;) {
        await this.#wakeup.wait(signal, Math.max(1, nextMs - performance.now()));
        if (this.#written.length > 0) await sleep(this.#recordDelayMs, signal);
        const asked = this.#asked.splice(0);
        const isDue = performance.now() >= nextMs || asked.length > 0;
        if (isDue) nextMs = performance.now() + this.#intervalMs;
        await this.#pass(isDue, signal);
        for (const resolve of asked) resolve();
      }
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    }
  }

  /** Records the written documents; with `isCheck`, also compares all others. */
  async #pass(isCheck: boolean, signal: AbortSignal): Promise<void> {
    const written = this.#written;
    this.#written = [];
    try {
      const places = this.#placesOf(written);
      const known = new Set(places.map(docPathText));
      for (const names of [this.#hashes, this.#failed])
        for (const name of [...names.keys()]) if (!known.has(name)) names.delete(name);
      // One place at a time, so that writers never wait for more than one response.
      for (const place of places) {
        const isWritten = overlapsOne(written, place) || !this.#hashes.has(docPathText(place));
        if (isWritten || isCheck) await this.#deps.exclusive((step) => this.#look(place, isWritten, step));
        signal.throwIfAborted();
      }
      const modulesFailed = isCheck ? await this.#lookAtModules(signal) : undefined;
      if (isCheck) this.#checkedMs = Date.now();
      this.#error = this.#failures(places.length) ?? modulesFailed;
    } catch (error) {
      if (signal.aborted) throw error;
      // The engine keeper handles engine failures; the next pass compares again.
      for (const path of written) this.#written.push(path);
      this.#error = errorText(error);
      this.#deps.log.warn(failureFields(error), 'documents could not be compared with the engine');
    }
  }

  /** The places that could not be compared, as text; undefined if there are none. */
  #failures(places: number): string | undefined {
    const shown = [...this.#failed].slice(0, SHOWN).map(([name, reason]) => `${name}: ${reason}`);
    if (shown.length === 0) return undefined;
    return `${this.#failed.size} of ${places} documents could not be compared: ${shown.join('; ')}`;
  }

  /** Returns why it failed, which keeps no document from being compared. */
  async #lookAtModules(signal: AbortSignal): Promise<string | undefined> {
    const { held, exclusive, log } = this.#deps;
    let found: readonly string[];
    try {
      found = await exclusive((step) => held.tidy(step));
    } catch (error) {
      if (signal.aborted || !(error instanceof EngineRefusal)) throw error;
      log.warn(failureFields(error), 'modules in the engine could not be mended');
      return `modules: ${errorText(error)}`;
    }
    this.#repaired += found.length;
    if (found.length > 0) {
      log.warn({ modules: found.slice(0, 20) }, 'modules in the engine were not those of the policy: mended');
    }
    return undefined;
  }

  /**
   * Compares one place. What fails here keeps no other from being compared, unless the engine does
   * not answer at all.
   */
  async #look(place: DocPath, isWritten: boolean, signal: AbortSignal): Promise<void> {
    const name = docPathText(place);
    try {
      await this.#compare(place, isWritten, signal);
      this.#failed.delete(name);
    } catch (error) {
      if (!(error instanceof EngineRefusal)) throw error;
      const isNews = this.#failed.get(name) !== error.message;
      this.#failed.set(name, error.message);
      if (isWritten) this.#hashes.delete(name); // that of what was there before
      if (isNews) this.#deps.log.warn({ path: name, ...failureFields(error) }, 'a document could not be compared');
    }
  }

  async #compare(place: DocPath, isWritten: boolean, signal: AbortSignal): Promise<void> {
    const { engine, held, log } = this.#deps;
    const name = docPathText(place);
    // Also if written while others were compared: the engine has the new content.
    const isNew = isWritten || overlapsOne(this.#written, place);
    const before = this.#hashes.get(name);
    const found = hashOf(await engine.read(place, signal));
    if (isNew || before === found) {
      this.#hashes.set(name, found);
      return;
    }
    log.warn({ path: name }, 'a document in the engine is not what was written: writing it again');
    await held.rewrite(place, signal);
    this.#repaired++;
    // The same content gives the same response: keep the hash, so that a change from now on is
    // detected.
    this.#written = this.#written.filter((path) => !isAtOrBelow(path, place));
  }

  #placesOf(written: readonly DocPath[]): DocPath[] {
    const { held, engine } = this.#deps;
    const closed = [...(held.policy === undefined ? [] : packageRoots(held.policy)), ...engine.reserved];
    return this.#places.list(held.layers, closed, (path) => overlapsOne(written, path));
  }
}

function overlapsOne(paths: readonly DocPath[], place: DocPath): boolean {
  return paths.length > MANY_PATHS || paths.some((path) => pathsOverlap(path, place));
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

/**
 * The paths at which documents are compared: the outermost ones of the client's documents. A
 * document above a package or a reserved document is mixed with results of rules, and the root with
 * documents of others: these are compared member by member. Leaves out everything at or below a
 * package.
 */
export class ComparedPlaces {
  /**
   * Cached members of places that are compared in parts: a large document is not parsed for each
   * write elsewhere.
   */
  readonly #parts = new Map<string, readonly DocPath[]>();
  #closed = '';

  /** Lists the paths. `isWritten`: whether a path has changed since the last call. */
  list(
    layers: Pick<LayerSet, 'all' | 'compose'>,
    closed: readonly DocPath[],
    isWritten: (path: DocPath) => boolean,
  ): DocPath[] {
    const key = JSON.stringify(closed);
    if (key !== this.#closed) this.#parts.clear();
    this.#closed = key;
    const tops = outermost([...layers.all()].map(({ path }) => path));
    const tree = new PathTree<DocPath>();
    for (const path of closed) tree.add(path, path);
    const found = tops.flatMap((path) => {
      if (tree.above(path).length > 0) return [];
      if (path.length > 0 && !tree.some(path, () => true)) return [path];
      const name = docPathText(path);
      const known = isWritten(path) ? undefined : this.#parts.get(name);
      const parts = known ?? partsOf(layers, tree, path);
      this.#parts.set(name, parts);
      return parts;
    });
    const names = new Set(tops.map(docPathText));
    for (const name of [...this.#parts.keys()]) if (!names.has(name)) this.#parts.delete(name);
    return found;
  }
}

/** Returns the members of a document; descends into those that have a closed path below them. */
function partsOf(layers: Pick<LayerSet, 'compose'>, closed: PathTree<DocPath>, path: DocPath): readonly DocPath[] {
  const open = [{ path, node: layers.compose(path) }];
  const found: DocPath[] = [];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    for (const [name, node] of membersOf(at.node)) {
      const place = [...at.path, name];
      if (closed.above(place).length > 0) continue;
      if (closed.some(place, () => true)) open.push({ path: place, node });
      else found.push(place);
    }
  }
  return found;
}
