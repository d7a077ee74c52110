import {
  inSpan,
  type TraceAttributes,
  type TraceSpan,
  type Tracing,
  validTraceparent,
} from '../../lib/observe/tracing.js';
import { withOverrides } from '../../lib/run/with-overrides.js';
import type { PolicyBundle } from '../../wire/bundle.js';
import type { KnownEntry } from '../desired/entry-table.js';
import type { Applier } from '../reconcile/applier.js';
import type { EntryTraces } from '../reconcile/entry-traces.js';
import type { BegunUpdate, DataEvent } from '../status/data-events.js';

/** Traced updates that are followed at a time: beyond it the oldest are no longer. */
const MAX_FOLLOWED = 10_000;

/** An update that belongs to a trace. */
interface Traced {
  readonly parent: string;
  readonly update: BegunUpdate;
}

/** Spans of a client: fetch, apply and report of each update whose announcement named a span. */
export class UpdateTraces implements EntryTraces {
  readonly #tracing: Tracing;
  readonly #clientId: string;
  /**
   * By transaction, until it has finished: later reads of its sources are not part of the change.
   */
  readonly #open = new Map<string, Traced>();
  /** What has finished since the last report. */
  #unreported: Traced[] = [];

  constructor(options: { clientId: string }, deps: { tracing: Tracing }) {
    this.#clientId = options.clientId;
    this.#tracing = deps.tracing;
  }

  readonly onData = (event: DataEvent): void => {
    if (event.kind !== 'begun') return;
    const parent = validTraceparent(event.update.traceparent);
    if (parent === undefined) return;
    this.#open.set(event.transaction, { parent, update: event.update });
    const [oldest] = this.#open.keys();
    if (this.#open.size > MAX_FOLLOWED && oldest !== undefined) this.#open.delete(oldest);
  };

  /** The transaction of an update has ended. */
  finished(update: BegunUpdate): void {
    for (const [transaction, traced] of this.#open) {
      if (traced.update !== update) continue;
      this.#open.delete(transaction);
      this.#unreported.push(traced);
    }
  }

  fetch<T>(entry: KnownEntry, work: () => Promise<T>): Promise<T> {
    const traced = this.#open.get(entry.transaction);
    if (traced === undefined) return work();
    const attributes = { ...this.#about(traced), 'policysync.path': entry.path.join('/') };
    return inSpan(this.#tracing, 'fetch', { parent: traced.parent, kind: 'client', attributes }, work);
  }

  apply<T>(entries: readonly KnownEntry[], work: () => Promise<T>): Promise<T> {
    const traced = new Set(entries.flatMap(({ transaction }) => this.#open.get(transaction) ?? []));
    return this.#inSpans('apply', [...traced], {}, work);
  }

  /** Runs the report that tells the server what has been applied since the one before. */
  report<T>(work: () => Promise<T>): Promise<T> {
    const reported = this.#unreported;
    this.#unreported = [];
    return this.#inSpans('report', reported, { kind: 'client' }, work);
  }

  /** One piece of work of several traces: a span in each. */
  async #inSpans<T>(
    name: string,
    traced: readonly Traced[],
    begin: { kind?: 'client' },
    work: () => Promise<T>,
  ): Promise<T> {
    if (traced.length === 0) return await work();
    const spans: readonly TraceSpan[] = traced.map((one) =>
      this.#tracing.start(name, { ...begin, parent: one.parent, attributes: this.#about(one) }),
    );
    try {
      // What instrumented libraries do belongs to the first of them: a span has one parent.
      const result = await (spans[0]?.run(work) ?? work());
      for (const span of spans) span.end();
      return result;
    } catch (error) {
      for (const span of spans) span.end(error);
      throw error;
    }
  }

  #about({ update }: Traced): TraceAttributes {
    return { 'policysync.client_id': this.#clientId, 'policysync.update_id': update.id };
  }
}

/** A bundle, and the span of the server that announced its commit. */
export type TracedBundle = PolicyBundle & { readonly traceparent?: string | undefined };

type FetchBundle = (baseHash: string | undefined, signal: AbortSignal) => Promise<TracedBundle>;

/**
 * Spans of a client for a commit: the request for its bundle, and its way into the engine. The
 * parts do not know of it.
 */
export class BundleTraces {
  readonly #tracing: Tracing;
  readonly #clientId: string;
  #fetched: { readonly hash: string; readonly traceparent: string } | undefined;

  constructor(options: { clientId: string }, deps: { tracing: Tracing }) {
    this.#clientId = options.clientId;
    this.#tracing = deps.tracing;
  }

  fetch(fetch: FetchBundle): FetchBundle {
    return async (baseHash, signal) => {
      const startMs = Date.now();
      const bundle = await fetch(baseHash, signal);
      const { hash, traceparent } = bundle;
      // Only the answer says what the request belonged to.
      this.#fetched = traceparent === undefined ? undefined : { hash, traceparent };
      if (traceparent !== undefined) {
        const begin = { parent: traceparent, kind: 'client', startMs, attributes: this.#about(hash) } as const;
        this.#tracing.start('policy bundle fetch', begin).end();
      }
      return bundle;
    };
  }

  applier(applier: Applier): Applier {
    return withOverrides(applier, {
      applyPolicy: (policy, ...more) => {
        const work = (): ReturnType<Applier['applyPolicy']> => applier.applyPolicy(policy, ...more);
        const fetched = this.#fetched;
        if (fetched?.hash !== policy.hash) return work();
        const begin = { parent: fetched.traceparent, attributes: this.#about(policy.hash) };
        return inSpan(this.#tracing, 'policy apply', begin, work);
      },
    });
  }

  #about(hash: string): Record<string, string> {
    return { 'policysync.client_id': this.#clientId, 'policysync.commit': hash };
  }
}
