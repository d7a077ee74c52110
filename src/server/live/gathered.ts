import type { SourceView } from '../../wire/clients.js';
import type { FleetInstance } from '../../wire/fleet.js';
import type { ClientTimes } from '../changes/change-times.js';
import type { Memories } from '../changes/find-change.js';
import { firstStage, rememberedOf } from '../changes/trace-parts.js';
import type { KnownClient } from '../clients/known-client.js';
import type { PolicyChange } from './change-facts.js';
import type { ServedPolicy } from './row.js';

/** What is known of the fleet at one moment, whoever looks at it. */
export interface Gathered {
  readonly atMs: number;
  readonly epoch: string;
  /** Of the log. */
  readonly head: number;
  /** Name and client, in the order of the names. */
  readonly named: readonly (readonly [string, KnownClient])[];
  readonly incomplete: string | null;
  readonly memories: Memories;
  readonly policy: ServedPolicy;
  /** The commits, the newest first. */
  readonly commits: readonly PolicyChange[];
  /** Null: no policy source is configured. */
  readonly source: SourceView | null;
  readonly instances: readonly FleetInstance[];
}

/** The served policy, as rows need it. `order`: the served commits, the newest first. */
export function servedPolicy(head: string | undefined, order: readonly string[], memories: Memories): ServedPolicy {
  if (head === undefined) return { commit: undefined, order, timesOf: () => undefined };
  const remembered = rememberedOf(memories, head);
  const timesOf = (key: string): ClientTimes | undefined => {
    for (const { memory } of remembered) {
      const times = memory.clients.get(key);
      if (times?.heard !== undefined) return times;
    }
    return undefined;
  };
  const commit = { hash: head, announcedMs: firstStage(remembered, 'announced') };
  return { commit, order: order[0] === head ? order : [head, ...order.filter((hash) => hash !== head)], timesOf };
}
