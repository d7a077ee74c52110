import type { FleetInstance } from '../../wire/fleet.js';
import type { KnownClient } from '../clients/known-client.js';
import { instanceState } from './instance-rules.js';
import type { InstanceView } from './presence-text.js';
import type { Vitals } from './vitals.js';

/** An announcement of another instance, as far as it is of use here. */
export type AnnouncedInstance = Pick<InstanceView, 'instance' | 'atMs' | 'seen' | 'vitals'> & {
  readonly clients: readonly Pick<KnownClient, 'awaySinceMs'>[];
};

interface InstanceListDeps {
  /** Id of this instance. */
  readonly instance: string;
  readonly vitals: () => Vitals;
  readonly log: { readonly head: number };
  /** A position that every instance has seen by now, unless it is behind. */
  readonly settled: () => number;
  /** Connected clients of this instance. */
  readonly clients: () => number;
  readonly now: () => number;
  /** Milliseconds of a clock that never goes back, for ages. */
  readonly elapsed: () => number;
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

/** The server instances for people. */
export class InstanceList {
  readonly #deps: InstanceListDeps;
  #seen: ReadonlyMap<string, Seen> = new Map();

  constructor(deps: InstanceListDeps) {
    this.#deps = deps;
  }

  /**
   * All instances: this one, then the others by name. `views`: the last announcements of the
   * others. One that is no longer among them, and was not draining, stays for a while as silent.
   */
  list(views: readonly AnnouncedInstance[]): FleetInstance[] {
    this.#seen = this.#remember(views);
    const others = [...this.#seen.values()].map((one) => this.#other(one));
    return distinct([this.#own(), ...others.sort((a, b) => (sortKey(a) < sortKey(b) ? -1 : 1))]);
  }

  /** What another instance of the last list has announced of itself. */
  vitalsOf(instance: string): Vitals | undefined {
    return this.#seen.get(instance)?.view.vitals;
  }

  #remember(views: readonly AnnouncedInstance[]): ReadonlyMap<string, Seen> {
    const { now, elapsed, vitals } = this.#deps;
    const nowMs = elapsed();
    const next = new Map<string, Seen>();
    for (const view of views) {
      const before = this.#seen.get(view.instance);
      const isNews = before === undefined || before.view.atMs !== view.atMs;
      const since = isNews ? { sinceMs: now(), sinceElapsed: nowMs } : before;
      next.set(view.instance, { ...since, view });
    }
    const started = [vitals(), ...views.flatMap((view) => view.vitals ?? [])];
    for (const [instance, one] of this.#seen) {
      if (next.size >= MAX_REMEMBERED) break;
      const isGone = nowMs - one.sinceElapsed > REMEMBERED_MS || hasEnded(one, started);
      if (!next.has(instance) && !isGone) next.set(instance, one);
    }
    return next;
  }

  #own(): FleetInstance {
    const { instance, vitals, log, now, clients } = this.#deps;
    const own = vitals();
    const state = instanceState({ ageMs: 0, ...own, behind: 0 });
    const facts = { instance, here: true, state, seen_at: now(), clients: clients(), log_at: log.head, behind: 0 };
    return { ...shown(own), ...facts };
  }

  #other({ view, sinceMs, sinceElapsed }: Seen): FleetInstance {
    const { settled, log, elapsed } = this.#deps;
    const { vitals, instance, clients, seen } = view;
    const behind = seen < settled() ? log.head - seen : 0;
    const { isDraining = false, isUp = true, isWritable, backboneMs = null } = vitals ?? {};
    return {
      ...(vitals === undefined ? unknown(instance) : shown(vitals)),
      instance,
      here: false,
      state: instanceState({ ageMs: elapsed() - sinceElapsed, isDraining, isUp, isWritable, backboneMs, behind }),
      seen_at: sinceMs,
      clients: clients.filter(({ awaySinceMs }) => awaySinceMs === null).length,
      log_at: seen,
      behind,
    };
  }
}

/** It was draining, or a server of its host started after it was last heard. */
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

/** An instance that says nothing of itself that can be read. */
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
