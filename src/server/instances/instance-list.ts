import type { FleetInstance } from '../../wire/fleet.js';
import { instanceState } from './instance-rules.js';
import type { Vitals } from './vitals.js';

/** An announcement of another instance, as far as it is of use here. */
export interface AnnouncedInstance {
  readonly instance: string;
  /** Time of the announcement, in milliseconds since 1970. */
  readonly atMs: number;
  /** Last seq of the log that it had seen. */
  readonly seen: number;
  readonly clients: readonly { readonly awaySinceMs: number | null }[];
  /** Undefined: it is of an older version. */
  readonly vitals?: Vitals | undefined;
}

export interface InstanceListDeps {
  /** Id of this instance. */
  readonly instance: string;
  readonly vitals: () => Vitals;
  readonly log: { readonly head: number };
  /** A position that every instance has seen by now, unless it is behind. */
  readonly settled: () => number;
  /** Connected clients of this instance. */
  readonly clients: () => number;
  readonly now: () => number;
  /** Milliseconds of a clock that never goes back, for ages. Default: `now`. */
  readonly elapsed?: (() => number) | undefined;
}

/** The server instances for people. */
export interface InstanceList {
  /**
   * All instances: this one, then the others by name. `views`: the last announcements of the others. An instance that is no longer among
   * them, and was not draining, stays for a while as silent.
   */
  list(views: readonly AnnouncedInstance[]): FleetInstance[];
  /** What another instance of the last list has announced of itself. */
  vitalsOf(instance: string): Vitals | undefined;
}

interface Seen {
  readonly view: AnnouncedInstance;
  /** When its last announcement was first seen: the time of it is by another clock. */
  readonly sinceMs: number;
  /** The same by `elapsed`. */
  readonly sinceElapsed: number;
}

/** How long an instance that has ended without a word is listed. */
const REMEMBERED_MS = 900_000;
/** Most instances that are remembered. */
const MAX_REMEMBERED = 64;
/** Characters of an instance id that tell instances of one host apart. */
const SHORT_ID = 4;

/** Creates an {@link InstanceList}. */
export function createInstanceList(deps: InstanceListDeps): InstanceList {
  const elapsed = deps.elapsed ?? deps.now;
  let seen: ReadonlyMap<string, Seen> = new Map();

  function remember(views: readonly AnnouncedInstance[]): ReadonlyMap<string, Seen> {
    const nowMs = elapsed();
    const next = new Map<string, Seen>();
    for (const view of views) {
      const before = seen.get(view.instance);
      const isNews = before === undefined || before.view.atMs !== view.atMs;
      const since = isNews ? { sinceMs: deps.now(), sinceElapsed: nowMs } : before;
      next.set(view.instance, { ...since, view });
    }
    const started = [deps.vitals(), ...views.flatMap(({ vitals }) => vitals ?? [])];
    for (const [instance, one] of seen) {
      if (next.size >= MAX_REMEMBERED) break;
      const isGone = nowMs - one.sinceElapsed > REMEMBERED_MS || hasEnded(one, started);
      if (!next.has(instance) && !isGone) next.set(instance, one);
    }
    return next;
  }

  function own(): FleetInstance {
    const vitals = deps.vitals();
    const { head } = deps.log;
    const facts = { ageMs: 0, ...vitals, behind: 0 };
    return {
      ...shown(vitals),
      instance: deps.instance,
      here: true,
      state: instanceState(facts),
      seen_at: deps.now(),
      clients: deps.clients(),
      log_at: head,
      behind: 0,
    };
  }

  function other({ view, sinceMs, sinceElapsed }: Seen): FleetInstance {
    const { vitals, instance, clients } = view;
    const behind = view.seen < deps.settled() ? deps.log.head - view.seen : 0;
    const { isDraining = false, isUp = true, isWritable, backboneMs = null } = vitals ?? {};
    return {
      ...(vitals === undefined ? unknown(instance) : shown(vitals)),
      instance,
      here: false,
      state: instanceState({ ageMs: elapsed() - sinceElapsed, isDraining, isUp, isWritable, backboneMs, behind }),
      seen_at: sinceMs,
      clients: clients.filter(({ awaySinceMs }) => awaySinceMs === null).length,
      log_at: view.seen,
      behind,
    };
  }

  return {
    list: (views) => {
      seen = remember(views);
      const others = [...seen.values()].map(other).sort((a, b) => (sortKey(a) < sortKey(b) ? -1 : 1));
      return distinct([own(), ...others]);
    },
    vitalsOf: (instance) => seen.get(instance)?.view.vitals,
  };
}

/** Whether it has ended as it should: it was draining, or a server of the same host was started after it was last heard of. */
function hasEnded({ view }: Seen, vitals: readonly Vitals[]): boolean {
  if (view.vitals?.isDraining === true) return true;
  return vitals.some(({ name, startedMs }) => name === view.vitals?.name && startedMs > view.atMs);
}

function shown(vitals: Vitals): Pick<FleetInstance, Shown> {
  return {
    name: vitals.name,
    version: vitals.version,
    started_at: vitals.startedMs,
    backbone_ms: vitals.backboneMs,
    loop_delay_ms: vitals.loopMs,
    memory_bytes: vitals.memory,
    source: vitals.source,
  };
}

type Shown = 'name' | 'version' | 'started_at' | 'backbone_ms' | 'loop_delay_ms' | 'memory_bytes' | 'source';

/** An instance of a version that says nothing of itself. */
function unknown(instance: string): Pick<FleetInstance, Shown> {
  const nothing = { version: null, started_at: null, backbone_ms: null, loop_delay_ms: null, memory_bytes: null };
  return { name: instance.slice(0, 8), ...nothing, source: null };
}

function sortKey({ name, instance }: FleetInstance): string {
  return `${name}\0${instance}`;
}

/** Names of instances on one host get the beginning of their ids. */
function distinct(instances: readonly FleetInstance[]): FleetInstance[] {
  const count = new Map<string, number>();
  for (const { name } of instances) count.set(name, (count.get(name) ?? 0) + 1);
  return instances.map((one) =>
    (count.get(one.name) ?? 0) > 1 ? { ...one, name: `${one.name} ${one.instance.slice(0, SHORT_ID)}` } : one,
  );
}
