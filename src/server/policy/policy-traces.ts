import type { Tracing } from '../../lib/observe/tracing.js';
import { withOverrides } from '../../lib/run/with-overrides.js';
import type { EncodedBundle, PolicyBundles } from './bundle/policy-bundles.js';
import type { SharedPolicyHead } from './source/shared-policy-head.js';
import type { PolicyHeadChange, PolicySource } from './source/source.js';

/**
 * Spans of a commit: its fetch, which begins the trace, its notices, and the bundles for clients
 * that held another commit. The parts do not know of it: they are wrapped. The update log carries
 * the trace to the other instances.
 */
export class PolicyTraces {
  readonly #tracing: Tracing;
  readonly #heads: SharedPolicyHead;
  #fetchedMs = Date.now();
  /** The commit that was announced last, and the span of that. */
  #announced: { readonly hash: string; readonly traceparent: string } | undefined;

  constructor(deps: { tracing: Tracing; heads: SharedPolicyHead }) {
    this.#tracing = deps.tracing;
    this.#heads = deps.heads;
  }

  /** Remembers when a read began: only then is it known whether it brings something new. */
  source<S extends PolicySource>(source: S): S {
    const methods: Partial<PolicySource> = {
      fetch: (signal) => {
        this.#fetchedMs = Date.now();
        return source.fetch(signal);
      },
    };
    return withOverrides(source, methods as Partial<S>);
  }

  /** A commit that is proposed begins a trace, with the read that found it. */
  heads(): SharedPolicyHead {
    return withOverrides(this.#heads, {
      propose: async (hash, seen, _, verdict) => {
        const attributes = { 'policysync.commit': hash };
        const span = this.#tracing.start('policy fetch', { kind: 'client', startMs: this.#fetchedMs, attributes });
        try {
          await this.#heads.propose(hash, seen, span.traceparent, verdict);
          span.end();
        } catch (error) {
          span.end(error);
          throw error;
        }
      },
    });
  }

  /** Runs the notices of a new head. */
  notify<T>(change: PolicyHeadChange, work: () => T): T {
    const head = this.#heads.look().head;
    if (head?.hash !== change.hash || head.traceparent === undefined) return work();
    const attributes = { 'policysync.commit': change.hash, 'policysync.directories': change.changedDirectories.length };
    const begin = { parent: head.traceparent, kind: 'producer', attributes } as const;
    const span = this.#tracing.start('policy notify', begin);
    this.#announced = { hash: change.hash, traceparent: span.traceparent };
    try {
      return span.run(work);
    } finally {
      span.end();
    }
  }

  bundles(bundles: Pick<PolicyBundles, 'get'>): Pick<PolicyBundles, 'get'> {
    return withOverrides(bundles, {
      get: async (request) => {
        const startMs = Date.now();
        const bundle = await bundles.get(request);
        const parent = this.parentFor(bundle, request.baseHash);
        if (parent === undefined) return bundle;
        const attributes = { 'policysync.commit': bundle.hash, 'policysync.bytes': bundle.json.length };
        this.#tracing.start('policy bundle', { parent, kind: 'server', startMs, attributes }).end();
        return bundle;
      },
    });
  }

  /**
   * What the spans of a client name as their parent that goes from one commit to this one;
   * undefined: it loads all, or knows it.
   */
  parentFor({ hash }: Pick<EncodedBundle, 'hash'>, baseHash: string | undefined): string | undefined {
    if (baseHash === undefined || baseHash === hash || this.#announced?.hash !== hash) return undefined;
    return this.#announced.traceparent;
  }
}
