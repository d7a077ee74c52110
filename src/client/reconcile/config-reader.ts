import { SyncError } from '../../lib/errors.js';
import type { BackoffOptions } from '../../lib/run/async.js';
import { RetryLoop } from '../../lib/run/retry-loop.js';
import type { PeerDataConfig } from '../../wire/data.js';
import { entryConcerns, entryIdentity, entryPath } from '../desired/entry-table.js';
import { behindError } from '../position/pull.js';
import type { ReaderDeps } from './load.js';

/** Asks for a data configuration. */
export type FetchConfig = (signal: AbortSignal) => Promise<PeerDataConfig>;

/** What {@link ConfigReader} works with. */
export interface ConfigReaderDeps extends ReaderDeps {
  /** All that is desired at once: of an OPAL server, and of one of ours without sessions. */
  readonly fetchConfig: FetchConfig;
  /** Base entries alone, of a server with sessions (design D15). */
  readonly fetchBase: FetchConfig;
}

/**
 * Reads the data configuration: the base entries and, where the server keeps them together, what it
 * retained.
 */
export class ConfigReader {
  readonly loop: RetryLoop;
  readonly #deps: ConfigReaderDeps;
  /** Callers that wait for the end of the next read. */
  readonly #waiting: { resolve: () => void; reject: (error: unknown) => void }[] = [];
  /** Requests to ask all sources, and how many of these were served. */
  #asked = 0;
  #served = 0;
  #wasRead = false;

  constructor(options: { backoff: BackoffOptions }, deps: ConfigReaderDeps) {
    this.#deps = deps;
    this.loop = new RetryLoop('reading the data configuration', options.backoff, deps.log, (signal) =>
      this.#readForWaiting(signal),
    );
  }

  /** A configuration was read since the start. */
  get wasRead(): boolean {
    return this.#wasRead;
  }

  /** Reads it again, and asks each source whether it has something new. */
  resync(): void {
    this.#deps.cursor.reserve();
    this.#asked++;
    this.loop.request();
  }

  /** Settles as the first read that begins from now on ends. */
  nextRead(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
    });
  }

  /** Rejects for those who wait: nothing is read any more. */
  end(): void {
    for (const { reject } of this.#waiting.splice(0)) reject(notFollowing());
  }

  async #readForWaiting(signal: AbortSignal): Promise<void> {
    const waiting = this.#waiting.splice(0);
    try {
      if (this.#deps.session.isApart) await this.#readBase(signal);
      else await this.#readWhole(signal);
      for (const { resolve } of waiting) resolve();
    } catch (error) {
      for (const { reject } of waiting) reject(signal.aborted ? notFollowing() : error);
      throw error;
    }
  }

  /** All at once: base entries and, in the same order, what a server of ours retained. */
  async #readWhole(signal: AbortSignal): Promise<void> {
    const { cursor, entries, load } = this.#deps;
    const { asks, config } = await this.#ask(this.#deps.fetchConfig, signal);
    const isFirst = !this.#wasRead;
    this.#wasRead = true;
    if (isFirst && config.epoch === undefined) cursor.leave();
    else if (config.epoch !== cursor.epoch) cursor.enter(config.epoch);
    const seen = this.#learn(config, cursor.reserved, asks);
    cursor.isRead = true;
    if (config.epoch !== undefined && config.head !== undefined) {
      cursor.position.pulled(config.head, true);
      entries.removeMissing('update', config.head, seen);
    }
    this.#compare(config, seen);
    load.wholeRead(config.epoch === undefined ? undefined : config.head);
  }

  /**
   * The base entries of a server that keeps them apart, or of the external API that it leads to.
   */
  async #readBase(signal: AbortSignal): Promise<void> {
    const { cursor } = this.#deps;
    const { asks, config } = await this.#ask(this.#deps.fetchBase, signal);
    const { epoch, head } = config;
    if (epoch === cursor.epoch && head !== undefined && head < cursor.position.through) {
      throw behindError(head, cursor.position.through);
    }
    this.#wasRead = true;
    if (epoch !== undefined && epoch !== cursor.epoch) cursor.enter(epoch);
    // What an external API lists ranks below every update (design D19).
    const seen = this.#learn(config, 0, asks);
    this.#compare(config, seen);
    this.#deps.load.baseRead(epoch);
  }

  async #ask(fetch: FetchConfig, signal: AbortSignal): Promise<{ config: PeerDataConfig; asks: boolean }> {
    await this.#deps.session.turn(signal);
    const asked = this.#asked;
    const config = await fetch(signal);
    const asks = asked > this.#served;
    this.#served = asked;
    return { config, asks };
  }

  /**
   * Learns the entries of a configuration; returns their ids. `unplaced`: the place of those
   * without one.
   */
  #learn(config: PeerDataConfig, unplaced: number, asks: boolean): Set<string> {
    const { cursor, entries, topics } = this.#deps;
    const { transaction } = this.#deps.load;
    const seen = new Set<string>();
    const counts = new Map<number, number>();
    const listed = config.entries
      .filter((entry) => entryConcerns(entry, topics))
      .map((entry) => {
        const { seq = unplaced, origin = 'base' } = entry;
        const isUpdate = origin === 'update' && entry.seq !== undefined;
        // A base entry is the same one in every log: while its source has nothing new it keeps its
        // place, so that neither a reconnect nor a new log supersedes what was published below it
        // (design D11).
        const id = isUpdate ? cursor.placedId(entry, seq) : `base/${entryIdentity(entry, entryPath(entry))}`;
        seen.add(id);
        return { entry, id, seq, origin, isUpdate };
      });
    for (const { entry, id, seq, origin, isUpdate } of listed) {
      const at = counts.get(seq) ?? 0;
      counts.set(seq, at + 1);
      const index = isUpdate ? entries.table.indexInFold(entry, cursor.era, { seq, at, ids: seen }) : at;
      entries.learn(entry, { id, rank: { era: cursor.era, seq, index }, origin, transaction }, asks);
    }
    return seen;
  }

  /**
   * Removes base entries that are no longer listed where the server is sure, and stops reading them
   * otherwise.
   */
  #compare({ epoch, head, base_set: isSet }: PeerDataConfig, seen: ReadonlySet<string>): void {
    const { entries } = this.#deps;
    if (epoch !== undefined && head !== undefined && isSet === true) entries.removeMissing('base', head, seen);
    entries.stopUnlisted(seen);
  }
}

function notFollowing(): SyncError {
  return new SyncError('updater_disabled', 'The client no longer follows the sync server.');
}
