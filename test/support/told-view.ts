import assert from 'node:assert/strict';
import { silentLogger } from '../../src/lib/observe/log.js';
import type { KnownClient } from '../../src/server/clients/known-client.js';
import { PresenceJournal, type SaidOfItself } from '../../src/server/peers/presence-journal.js';
import { PresenceReader } from '../../src/server/peers/presence-reader.js';
import type { InstanceView } from '../../src/server/peers/presence-text.js';
import { SharedPresence } from './shared-presence.js';

const TTL_MS = 60_000;

/** An instance that announces, and another one that reads it. */
export class ToldInstance {
  readonly shared = new SharedPresence();
  /** By the clock of the instance that announces. */
  nowMs = 1;
  /** How far the clock of the log is ahead of that of the instance that reads. */
  clockAheadMs: number | undefined;
  /** When it is read. */
  readMs = Date.now();
  readonly learned: KnownClient[] = [];
  readonly #journal: PresenceJournal;
  readonly #reader: PresenceReader;

  constructor(instance = 'one') {
    const now = (): number => this.nowMs;
    const options = { instance, ttlMs: TTL_MS, quietMs: 1000, renewMs: 1e9, now, elapsed: now };
    this.#journal = new PresenceJournal(options, this.shared.of(instance));
    this.#reader = this.reader();
  }

  /** Another one that knows nothing yet. */
  reader(): PresenceReader {
    return new PresenceReader({
      ...{ presence: this.shared.of('reader'), instance: 'reader', memoryMs: TTL_MS, log: silentLogger() },
      clockAheadMs: () => this.clockAheadMs,
      onClients: (clients) => void this.learned.push(...clients),
      ...{ now: () => this.readMs, elapsed: () => this.readMs },
    });
  }

  async say(said: Partial<SaidOfItself>): Promise<void> {
    this.nowMs += 1000; // times of changes are written no more often
    await this.#journal.say({ clients: [], seen: 0, ...said });
  }

  async read(instance = 'one', reader = this.#reader): Promise<InstanceView> {
    const { texts } = await reader.read(true);
    const view = texts.get(instance)?.view;
    assert(view !== undefined, `nothing is read of ${instance}`);
    return view;
  }
}

/** What others read of an instance that says this once. */
export async function toldView(said: Partial<SaidOfItself>): Promise<InstanceView> {
  const told = new ToldInstance();
  await told.say(said);
  return await told.read();
}
