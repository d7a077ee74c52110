import { type ChangeStep, hasApplied } from '../../wire/session.js';
import type { TraceMemory } from '../trace/change-times.js';
import { concerns, type KnownClient, wasThere } from './known-client.js';
import type { RecentUpdates } from './recent-updates.js';

/** Maximum updates of one report whose times are noted. */
const MAX_TIMED = 1000;

interface ClientTimesDeps {
  readonly recent: Pick<RecentUpdates, 'between'>;
  readonly memory: TraceMemory;
  /** Called with the latency of each update that a connected client has applied. */
  readonly onApplied: ((seconds: number) => void) | undefined;
  readonly now: () => number;
}

/** Notes when clients say that they hold a change, or that their engine refuses it. */
export class ClientTimesKeeper {
  readonly #deps: ClientTimesDeps;

  constructor(deps: ClientTimesDeps) {
    this.#deps = deps;
  }

  /** A client is in another state than before. */
  changed(client: KnownClient, before: KnownClient | undefined): void {
    if (client.position !== before?.position) this.#applied(client, before);
    if (client.state !== before?.state) this.#policy(client, before);
  }

  /** What a client says of its last changes, by its own clock. Of others than it is concerned with nothing is kept. */
  said(client: KnownClient, steps: readonly ChangeStep[]): void {
    const { memory, recent, now } = this.#deps;
    for (const { seq, commit, ...times } of steps) {
      const seen = {
        ...(times.applied !== undefined && { appliedSeen: now() }),
        ...(times.refused !== undefined && { refusedSeen: now() }),
      };
      if (commit !== undefined) memory.commits.said(commit, client.key, { ...times, ...seen });
      if (seq === undefined) continue;
      const [update] = recent.between(seq - 1, seq);
      if (update !== undefined && concerns(client.topics, update.topics)) {
        memory.updates.said(seq, client.key, { ...times, ...seen });
      }
    }
  }

  /**
   * The updates that a client has just applied or whose content its engine refuses. The latency of those is measured that were
   * published while it was there; its first report counts all updates since it connected.
   */
  #applied(client: KnownClient, before: KnownClient | undefined): void {
    const { position, spans, topics, key } = client;
    const { recent, memory, onApplied, now } = this.#deps;
    const held = before?.position ?? null;
    if (position === null || (held !== null && held.epoch !== position.epoch)) return;
    const from = held?.applied_through ?? spans.at(-1)?.from ?? 0;
    const nowMs = now();
    // Neither moves `applied_through`.
    for (const seq of [...(held?.unresolved ?? []), ...position.applied_beyond]) {
      if (hasApplied(position, seq)) memory.updates.said(seq, key, { appliedSeen: nowMs });
    }
    let timed = 0;
    for (const update of recent.between(from, position.applied_through)) {
      if (++timed > MAX_TIMED) return;
      if (held?.applied_beyond.includes(update.seq) || !concerns(topics, update.topics)) continue;
      if (hasApplied(position, update.seq)) memory.updates.said(update.seq, key, { appliedSeen: nowMs });
      if (wasThere(spans, update.seq)) onApplied?.(Math.max(0, nowMs - update.timeMs) / 1000);
    }
  }

  #policy({ key, state }: KnownClient, before: KnownClient | undefined): void {
    const { memory, now } = this.#deps;
    if (state === null) return;
    const [held, heldBefore] = [heldBy(state), before?.state == null ? null : heldBy(before.state)];
    if (held !== null && held !== heldBefore) memory.commits.said(held, key, { appliedSeen: now() });
    const { policy } = state;
    const isNewError = policy?.error != null && policy.error.message !== before?.state?.policy?.error?.message;
    if (isNewError && policy.wanted !== null) memory.commits.said(policy.wanted, key, { refusedSeen: now() });
  }
}

/** The commit that a client says its engine holds. */
export function heldBy({ policy, policy_hash }: NonNullable<KnownClient['state']>): string | null {
  return policy?.held ?? policy_hash;
}
