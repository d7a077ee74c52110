import type { InstanceView } from './presence-text.js';

/** An instance that no longer announces itself, and the keys of the clients that it had last. */
export interface GoneInstance {
  readonly instance: string;
  readonly keys: readonly string[];
}

interface Seen {
  readonly keys: readonly string[];
  /** When it was last heard. */
  readonly atMs: number;
}

/** How long the clients of an instance that is gone are expected elsewhere. */
const EXPECTED_MS = 900_000;

/** Remembers which clients other instances had: one that is gone, or withdraws its clients as it ends, may still have them. */
export class GoneInstances {
  readonly #now: () => number;
  readonly #seen = new Map<string, Seen>();

  /** `now`: milliseconds of a clock that never goes back. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Returns the instances that are gone. `views`: the announcements that are there. */
  look(views: readonly Pick<InstanceView, 'instance' | 'clients'>[]): readonly GoneInstance[] {
    const atMs = this.#now();
    for (const { instance, clients } of views) {
      // Those without a session are known by their connection: at another instance they have another name.
      const keys = clients.filter(({ kind, twin }) => kind === 'session' && twin === undefined).map(({ key }) => key);
      if (keys.length > 0) this.#seen.set(instance, { keys, atMs });
    }
    const here = new Set(views.map(({ instance }) => instance));
    const gone: GoneInstance[] = [];
    for (const [instance, seen] of this.#seen) {
      if (here.has(instance)) continue;
      if (atMs - seen.atMs > EXPECTED_MS) this.#seen.delete(instance);
      else gone.push({ instance, keys: seen.keys });
    }
    return gone;
  }
}
