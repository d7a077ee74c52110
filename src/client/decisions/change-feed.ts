import { failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { type DocPath, pathsOverlap } from '../../wire/doc-path.js';
import type { DecisionChange } from './decision.js';

/**
 * More documents than this in one turn count as a change of all data: to compare each with each
 * would take too long.
 */
const MAX_PATHS = 1000;

interface Subscription {
  readonly path: string;
  readonly callback: (change: DecisionChange) => unknown;
}

/** Tells subscribers what changed in the engine, at the end of a turn of the event loop. */
export class ChangeFeed {
  readonly #reads: (path: string) => readonly DocPath[] | undefined;
  readonly #log: Logger;
  readonly #subscriptions = new Set<Subscription>();
  #isPolicyChanged = false;
  #written: DocPath[] = [];
  #timer: NodeJS.Immediate | undefined;

  /** `reads`: the documents that a decision reads; undefined if that is not known. */
  constructor(deps: { reads: (path: string) => readonly DocPath[] | undefined; log: Logger }) {
    this.#reads = deps.reads;
    this.#log = deps.log;
  }

  /** See `Decider.onChange`. */
  subscribe(path: string, callback: Subscription['callback']): () => void {
    const subscription = { path, callback };
    this.#subscriptions.add(subscription);
    return () => this.#subscriptions.delete(subscription);
  }

  /** The engine has another policy, or other documents that are loaded with it. */
  policyChanged(): void {
    if (this.#subscriptions.size === 0) return;
    this.#isPolicyChanged = true;
    this.#timer ??= setImmediate(() => this.#tell());
  }

  /** Documents were written or removed. */
  documentsChanged(paths: readonly DocPath[]): void {
    if (this.#subscriptions.size === 0) return;
    this.#written = this.#written.length + paths.length > MAX_PATHS ? [[]] : [...this.#written, ...paths];
    this.#timer ??= setImmediate(() => this.#tell());
  }

  /** Nobody is told anything any more. */
  close(): void {
    clearImmediate(this.#timer);
    this.#subscriptions.clear();
  }

  #tell(): void {
    const isPolicyChanged = this.#isPolicyChanged;
    const written = this.#written;
    this.#timer = undefined;
    this.#isPolicyChanged = false;
    this.#written = [];
    for (const subscription of [...this.#subscriptions]) {
      if (!this.#subscriptions.has(subscription)) continue; // a callback before it ended it
      if (isPolicyChanged) this.#call(subscription, 'policy');
      else if (this.#mayRead(subscription.path, written)) this.#call(subscription, 'data');
    }
  }

  #mayRead(path: string, written: readonly DocPath[]): boolean {
    const reads = this.#reads(path);
    return reads === undefined || reads.some((read) => written.some((place) => pathsOverlap(read, place)));
  }

  #call({ path, callback }: Subscription, what: DecisionChange['what']): void {
    const failed = (error: unknown): void => {
      this.#log.error({ ...failureFields(error, 'stack'), path }, 'a callback of onChange failed');
    };
    try {
      const result = callback({ path, what });
      if (result instanceof Promise) result.catch(failed);
    } catch (error) {
      failed(error);
    }
  }
}
