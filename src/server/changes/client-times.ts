import { type ChangeStep, hasApplied } from '../../wire/session.js';
import { concerns, type KnownClient, wasThere } from '../clients/known-client.js';
import type { RecentUpdates } from '../clients/recent-updates.js';
import type { ClientTimes, TraceMemory } from './change-times.js';
import type { StageFeed } from './stages.js';

/** Commits come again: an earlier time is of the time before. Clocks are known this well. */
const SAME_COMING_MS = 1000;
/** Maximum updates of one report whose times are noted. */
const MAX_TIMED = 1000;

interface ClientTimesDeps {
  readonly recent: Pick<RecentUpdates, 'between'>;
  readonly memory: TraceMemory;
  /** The served commit and those before it. */
  readonly servedCommits: () => readonly string[];
  readonly feed: StageFeed;
  readonly now: () => number;
}

/** Notes when clients say that they hold a change, or that their engine refuses it. */
export class ClientTimesKeeper {
  readonly #deps: ClientTimesDeps;
  /** What the last client that said something said of updates, by seq. */
  #said: { readonly key: string; readonly steps: ReadonlyMap<number, ChangeStep> } | undefined;

  constructor(deps: ClientTimesDeps) {
    this.#deps = deps;
  }

  /** A client is in another state than before. */
  changed(client: KnownClient, before: KnownClient | undefined): void {
    if (client.position !== before?.position) this.#applied(client, before);
    if (client.state !== before?.state) this.#policy(client, before);
  }

  /** What a client says of its last changes, by our clock. Keeps nothing of changes of others. */
  said(client: KnownClient, steps: readonly ChangeStep[]): void {
    const { memory, recent, now } = this.#deps;
    this.#said = {
      key: client.key,
      steps: new Map(steps.flatMap((step) => (step.seq === undefined ? [] : [[step.seq, step] as const]))),
    };
    for (const { seq, commit, ...times } of steps) {
      const seen = {
        ...(times.applied !== undefined && { appliedSeen: now() }),
        ...(times.refused !== undefined && { refusedSeen: now() }),
      };
      if (commit !== undefined && this.#isOfNow(commit, times))
        this.#saidOfCommit(commit, client, { ...times, ...seen });
      if (seq === undefined) continue;
      const [update] = recent.between(seq - 1, seq);
      if (update !== undefined && concerns(client.topics, update.topics)) {
        memory.updates.said(seq, client.key, { ...times, ...seen });
      }
    }
  }

  /** Of a commit served before this start nothing is known here, but its clients know. */
  #saidOfCommit(commit: string, { key }: KnownClient, times: ClientTimes): void {
    const { memory, servedCommits } = this.#deps;
    if (memory.commits.get(commit) === undefined && servedCommits().includes(commit)) memory.commits.remember(commit);
    memory.commits.said(commit, key, times);
  }

  /** Whether times are of the commit as it came last, not of an earlier time that it was served. */
  #isOfNow(commit: string, { heard, applied, refused }: Omit<ChangeStep, 'seq' | 'commit'>): boolean {
    const { found, agreed } = this.#deps.memory.commits.get(commit)?.stages ?? {};
    const cameMs = found ?? agreed;
    const lastMs = Math.max(applied ?? 0, refused ?? 0, heard ?? 0);
    return cameMs === undefined || lastMs >= cameMs - SAME_COMING_MS;
  }

  /**
   * The updates that a client has just applied or whose content its engine refuses. The latency of
   * those is measured that were published while it was there; its first report counts all updates
   * since it connected.
   */
  #applied(client: KnownClient, before: KnownClient | undefined): void {
    const { position, spans, topics, key } = client;
    const { recent, memory, feed, now } = this.#deps;
    const steps = this.#said?.key === key ? this.#said.steps : undefined;
    this.#said = undefined;
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
      const { applied, replaced } = steps?.get(update.seq) ?? {};
      const atMs = applied ?? replaced ?? nowMs;
      if (wasThere(spans, update.seq)) feed({ of: 'apply', tookMs: Math.max(0, atMs - update.timeMs) });
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
