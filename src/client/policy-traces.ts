import { inSpan, type Tracing } from '../lib/tracing.js';
import { withOverrides } from '../lib/with-overrides.js';
import type { PolicyBundle } from '../wire/bundle.js';
import type { Applier } from './reconcile/applier.js';

/** A bundle, and the span of the server that announced its commit. */
export type TracedBundle = PolicyBundle & { readonly traceparent?: string | undefined };

type FetchBundle = (baseHash: string | undefined, signal: AbortSignal) => Promise<TracedBundle>;

/** Spans of a client for a commit: the request for its bundle, and its way into the engine. The parts do not know of it. */
export class PolicyTraces {
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
