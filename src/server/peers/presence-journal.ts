import type { TraceMemory } from '../changes/change-times.js';
import { packJson, printClient, TopicLists } from '../clients/client-text.js';
import { isSameClient, isSamePosition, type KnownClient } from '../clients/known-client.js';
import type { Presence } from '../log/log-store.js';
import { type NumberedText, type PartRef, piecesOf, printHead, printHeld } from './presence-text.js';
import { printChange, printTimes, type ToldChange, toldChanges } from './shared-times.js';
import type { Vitals } from './vitals.js';

export interface PresenceJournalOptions {
  /** Name of the instance. */
  readonly instance: string;
  /** How long an announcement is kept by the backbone. */
  readonly ttlMs: number;
  /** A client that was heard within this time reports all the time. */
  readonly quietMs: number;
  /** An announcement is renewed after this time, even while the next one is being written. */
  readonly renewMs: number;
  /** Since 1970, and by a clock that never goes back. Default: those of the process. */
  readonly now?: () => number;
  readonly elapsed?: () => number;
}

/** What an instance says of itself. */
export interface SaidOfItself {
  /** All of its clients. Those that are the same objects as before have not changed. */
  readonly clients: readonly KnownClient[];
  /** Last seq of the log that it had seen before it looked at them. */
  readonly seen: number;
  readonly hasEnded?: true | undefined;
  readonly memory?: TraceMemory | undefined;
  readonly vitals?: Vitals | undefined;
}

/** Bounds of a part of clients: their number, and about their characters. */
const PART = { clients: 128, chars: 1024 * 1024 };
/** Characters of a client without its topics, about. */
const CLIENT_CHARS = 1000;
/** Parts of clients that what they hold is told of together. */
const PARTS_OF_SHEET = 32;
/** The times of changes are written at most so often: nothing waits for them. */
const TIMES_EVERY_MS = 1000;
/** Characters of parts that are written at once. */
const WRITE_CHARS = 2 * 1024 * 1024;
/** So long after a failure no call of before takes effect any more. */
const LATE_MS = 10_000;

/** A part as others find it. */
interface Part {
  /** Undefined: it was not written yet. */
  ref: PartRef | undefined;
  /** It is not what was written. */
  isDirty: boolean;
}

interface ClientsPart extends Part {
  readonly sheet: Sheet;
  readonly members: Set<Entry>;
  /** Lists of topics, and the characters of all. */
  readonly topics: Set<string>;
  chars: number;
}

/** What the clients of some parts hold. */
interface Sheet extends Part {
  readonly parts: Set<ClientsPart>;
}

interface Entry {
  client: KnownClient;
  readonly n: number;
  part: ClientsPart;
  reports: boolean;
  /** The last announcement that it was in. */
  turn: number;
}

/** Times of the clients of one change. */
interface TimesPart extends Part {
  /** Of the memory when they were printed. */
  version: number;
}

/** Parts that are being written. */
interface Staged {
  readonly part: Part;
  readonly ref: PartRef;
}

/**
 * What an instance announces, and has announced: of its clients only the parts are written in which
 * something has changed. One announcement after the other.
 */
export class PresenceJournal {
  readonly #options: Required<PresenceJournalOptions>;
  readonly #presence: Presence;
  readonly #entries = new Map<string, Entry>();
  readonly #sheets = new Set<Sheet>();
  /** Parts that have room for more clients. */
  readonly #open = new Set<ClientsPart>();
  readonly #changes: Part = { ref: undefined, isDirty: false };
  readonly #times = new Map<number | string, TimesPart>();
  readonly #numbers = new PartNumbers();
  /**
   * Parts that the last short text may still name: nobody knows yet whether a later one was taken.
   */
  #former: number[] = [];
  #version = 0;
  #turn = 0;
  #numbered = 0;
  /** What is told of the memory: its version, and since when. */
  #memory = { version: 0, atMs: Number.NEGATIVE_INFINITY };
  #told: readonly ToldChange[] = [];
  /** Of a call whose outcome is not known: it may still replace what was written since. */
  #failedMs: number | undefined;
  #last: { readonly text: string; putMs: number } | undefined;

  constructor(options: PresenceJournalOptions, presence: Presence) {
    this.#options = { now: Date.now, elapsed: () => performance.now(), ...options };
    this.#presence = presence;
  }

  /** Announces. Rejects as the presence does: then the next announcement writes what is missing. */
  async say(said: SaidOfItself): Promise<void> {
    const atMs = this.#options.now();
    this.#take(said.clients, atMs);
    if (said.memory !== undefined) this.#remember(said.memory);
    if (this.#failedMs !== undefined && this.#options.elapsed() - this.#failedMs > LATE_MS) {
      this.#failedMs = undefined;
      this.#writeAllAnew();
    }
    try {
      if (await this.#write(said, atMs)) return;
      // The backbone has lost parts that were written long ago.
      this.#writeAllAnew();
      await this.#write(said, atMs);
    } catch (error) {
      this.#failedMs = this.#options.elapsed();
      throw error;
    }
  }

  /** Finds what has changed since the last announcement. */
  #take(clients: readonly KnownClient[], nowMs: number): void {
    const turn = ++this.#turn;
    for (const client of clients) {
      const entry = this.#entries.get(client.key);
      const reports = isReporting(client, nowMs - this.#options.quietMs);
      if (entry === undefined) this.#add(client, { reports, turn });
      else {
        entry.turn = turn;
        if (entry.client === client && entry.reports === reports) continue;
        if (!isSamePosition(entry.client.position, client.position)) entry.part.sheet.isDirty = true;
        if (entry.reports !== reports || !isSameClient(entry.client, client)) entry.part.isDirty = true;
        entry.client = client;
        entry.reports = reports;
      }
    }
    if (clients.length === this.#entries.size) return;
    for (const entry of this.#entries.values()) if (entry.turn !== turn) this.#remove(entry);
  }

  #add(client: KnownClient, more: Pick<Entry, 'reports' | 'turn'>): void {
    const topics = client.topics.join('\n');
    const entry = { client, n: ++this.#numbered, part: this.#partFor(topics), ...more };
    this.#entries.set(client.key, entry);
    this.#join(entry, topics);
  }

  /** Adds a client to its part. */
  #join(entry: Entry, topics: string): void {
    const { part } = entry;
    part.members.add(entry);
    part.isDirty = true;
    part.sheet.isDirty = true;
    countTopics(part, topics);
    if (part.members.size >= PART.clients || part.chars >= PART.chars) this.#open.delete(part);
  }

  #remove(entry: Entry): void {
    const { part } = entry;
    this.#entries.delete(entry.client.key);
    part.members.delete(entry);
    part.isDirty = true;
    part.sheet.isDirty = true;
    this.#open.add(part);
    if (part.members.size === 0) this.#drop(part);
  }

  /** A part that has room for a client with these topics. */
  #partFor(topics: string): ClientsPart {
    for (const part of this.#open) {
      const more = part.topics.has(topics) ? 0 : topics.length;
      if (part.chars + CLIENT_CHARS + more <= PART.chars) return part;
      this.#open.delete(part); // until one of its clients leaves
    }
    let sheet = [...this.#sheets].find(({ parts }) => parts.size < PARTS_OF_SHEET);
    if (sheet === undefined) {
      sheet = { parts: new Set(), ref: undefined, isDirty: true };
      this.#sheets.add(sheet);
    }
    const part = {
      sheet,
      members: new Set<Entry>(),
      topics: new Set<string>(),
      chars: 0,
      ref: undefined,
      isDirty: true,
    };
    sheet.parts.add(part);
    this.#open.add(part);
    return part;
  }

  #drop(part: ClientsPart): void {
    this.#retire(part);
    this.#open.delete(part);
    part.sheet.parts.delete(part);
    if (part.sheet.parts.size > 0) return;
    this.#retire(part.sheet);
    this.#sheets.delete(part.sheet);
  }

  /** Finds the changes, and the times of clients, that others are to be told of. */
  #remember(memory: TraceMemory): void {
    const version = memory.updates.version + memory.commits.version;
    if (version === this.#memory.version || this.#options.elapsed() - this.#memory.atMs < TIMES_EVERY_MS) return;
    this.#memory = { version, atMs: this.#options.elapsed() };
    this.#told = toldChanges(memory, this.#entries.size);
    this.#changes.isDirty = true;
    const timed = new Set<number | string>();
    for (const { key, memory: change, isTimed } of this.#told) {
      if (!isTimed) continue;
      timed.add(key);
      const of = memory.updates.versionOf(change) + memory.commits.versionOf(change);
      const before = this.#times.get(key);
      if (before === undefined) this.#times.set(key, { ref: undefined, isDirty: true, version: of });
      else if (before.version !== of) Object.assign(before, { version: of, isDirty: true });
    }
    for (const [key, part] of this.#times) {
      if (timed.has(key)) continue;
      this.#retire(part);
      this.#times.delete(key);
    }
  }

  /** Writes the changed parts, then the short text. False: parts that it names are missing. */
  async #write(said: SaidOfItself, atMs: number): Promise<boolean> {
    for (const { parts } of [...this.#sheets]) for (const part of [...parts]) this.#bound(part);
    const writing = new Writing();
    try {
      await this.#writeParts(writing);
    } catch (error) {
      this.#numbers.free(writing.numbers); // no short text names them
      throw error;
    }
    const text = await printHead(this.#head(said, atMs));
    const { instance, ttlMs, elapsed } = this.#options;
    // It may be taken though the call fails: then none of before may come after it.
    this.#last = { text, putMs: this.#last?.putMs ?? elapsed() };
    const kept = await this.#presence.put(instance, text, ttlMs, this.#numbers.end);
    const isWhole = kept >= this.#numbers.end;
    this.#last.putMs = elapsed();
    this.#numbers.free(this.#former);
    this.#former = [];
    return isWhole;
  }

  async #writeParts(writing: Writing): Promise<void> {
    for (const sheet of this.#sheets) {
      for (const part of sheet.parts) if (part.isDirty) await this.#stage(writing, part, clientsText(part));
      if (sheet.isDirty) await this.#stage(writing, sheet, printHeld(heldBy(sheet)));
    }
    if (this.#changes.isDirty) await this.#stage(writing, this.#changes, this.#told.map(printChange));
    const numberOf = (key: string): number | undefined => this.#entries.get(key)?.n;
    for (const change of this.#told) {
      const part = this.#times.get(change.key);
      if (part?.isDirty) await this.#stage(writing, part, printTimes(change, numberOf));
    }
    await this.#flush(writing);
  }

  #head({ seen, hasEnded, vitals }: SaidOfItself, atMs: number): Parameters<typeof printHead>[0] {
    const { instance, ttlMs, quietMs } = this.#options;
    const refOf = ({ ref }: Part): PartRef => {
      if (ref === undefined) throw new Error('a part is named that was not written');
      return ref;
    };
    return {
      ...{ instance, atMs, version: ++this.#version, seen, ttlMs, heardAfterMs: Math.max(0, atMs - quietMs) },
      ...(hasEnded && { hasEnded }),
      sheets: [...this.#sheets].map((sheet) => ({ held: refOf(sheet), clients: [...sheet.parts].map(refOf) })),
      ...(this.#changes.ref !== undefined && { changes: this.#changes.ref }),
      times: [...this.#times.values()].map(refOf),
      ...(vitals !== undefined && { vitals }),
    };
  }

  /** Moves clients elsewhere whose topics have become too many for a part with others. */
  #bound(part: ClientsPart): void {
    if (!part.isDirty) return;
    part.topics.clear();
    part.chars = 0;
    for (const entry of part.members) {
      const topics = entry.client.topics.join('\n');
      if (part.chars === 0 || part.chars + topics.length <= PART.chars) {
        countTopics(part, topics);
        continue;
      }
      this.#open.delete(part);
      part.members.delete(entry);
      part.sheet.isDirty = true;
      entry.part = this.#partFor(topics);
      this.#join(entry, topics);
    }
  }

  async #stage(writing: Writing, part: Part, value: unknown): Promise<void> {
    const pieces = piecesOf(++this.#version, await packJson(value));
    const numbers = pieces.map((piece) => writing.add(this.#numbers.take(), piece));
    writing.staged.push({ part, ref: [this.#version, ...numbers] });
    if (writing.chars >= WRITE_CHARS) await this.#flush(writing);
    await this.#renew();
  }

  async #flush(writing: Writing): Promise<void> {
    if (writing.pieces.size === 0) return;
    await this.#presence.putParts(this.#options.instance, writing.pieces, this.#options.ttlMs);
    for (const { part, ref } of writing.staged) {
      this.#retire(part);
      part.ref = ref;
      part.isDirty = false;
    }
    writing.clear();
  }

  /** Nobody is silent because it has much to write: what it said last still holds. */
  async #renew(): Promise<void> {
    const { instance, ttlMs, renewMs, elapsed } = this.#options;
    if (this.#last === undefined || elapsed() - this.#last.putMs < renewMs) return;
    this.#last.putMs = elapsed();
    await this.#presence.put(instance, this.#last.text, ttlMs, this.#numbers.end);
  }

  #retire({ ref }: Part): void {
    if (ref === undefined) return;
    const [, ...pieces] = ref;
    this.#former.push(...pieces);
  }

  #writeAllAnew(): void {
    for (const sheet of this.#sheets) {
      sheet.isDirty = true;
      for (const part of sheet.parts) part.isDirty = true;
    }
    for (const part of this.#times.values()) part.isDirty = true;
    if (this.#changes.ref !== undefined) this.#changes.isDirty = true;
  }
}

/** Parts on their way to the backbone. */
class Writing {
  readonly staged: Staged[] = [];
  /** By their numbers. */
  readonly pieces = new Map<number, string>();
  chars = 0;

  get numbers(): readonly number[] {
    return [...this.pieces.keys()];
  }

  add(number: number, piece: string): number {
    this.pieces.set(number, piece);
    this.chars += piece.length;
    return number;
  }

  clear(): void {
    this.staged.length = 0;
    this.pieces.clear();
    this.chars = 0;
  }
}

function countTopics(part: ClientsPart, topics: string): void {
  part.chars += CLIENT_CHARS + (part.topics.has(topics) ? 0 : topics.length);
  part.topics.add(topics);
}

/** Whether a client of this instance reports all the time. */
function isReporting({ kind, awaySinceMs, reportedAtMs }: KnownClient, afterMs: number): boolean {
  return kind === 'session' && awaySinceMs === null && reportedAtMs !== null && reportedAtMs >= afterMs;
}

function clientsText({ members }: ClientsPart): object {
  const topics = new TopicLists();
  const clients = [...members].map(({ client, n, reports }): NumberedText => {
    return { ...printClient(client, topics), position: null, n, ...(reports && { reports }) };
  });
  return { topics: topics.lists, clients };
}

function* heldBy({ parts }: Sheet): Generator<KnownClient['position']> {
  for (const { members } of parts) for (const { client } of members) yield client.position;
}

/** Numbers of an instance's pieces: the lowest free one is next, so that few are kept. */
class PartNumbers {
  /** Highest first. */
  #free: number[] = [];
  #end = 0;

  /** All numbers in use are below. */
  get end(): number {
    return this.#end;
  }

  take(): number {
    return this.#free.pop() ?? this.#end++;
  }

  free(numbers: readonly number[]): void {
    if (numbers.length === 0) return;
    const free = [...this.#free, ...numbers].sort((a, b) => b - a);
    let highest = 0;
    while (free[highest] === this.#end - 1) {
      highest++;
      this.#end--;
    }
    this.#free = free.slice(highest);
  }
}
