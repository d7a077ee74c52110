import { errorText } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { isSamePosition, type KnownClient } from '../clients/known-client.js';
import type { Presence } from '../log/log-store.js';
import type { ReadText } from './other-instances.js';
import {
  type InstanceView,
  joinedPieces,
  type PartRef,
  type PresenceHead,
  readChangesPart,
  readClientsPart,
  readHead,
  readHeld,
  readTimesPart,
  type ToldClients,
} from './presence-text.js';
import { readMemory, type SharedTimes } from './shared-times.js';
import { clientMoved, clockDifference, memoryMoved } from './view-times.js';

export interface PresenceReaderDeps {
  readonly presence: Presence;
  /** Of this instance, which is not read. */
  readonly instance: string;
  /** How long it is remembered what another one said that says nothing any more. */
  readonly memoryMs: number;
  /** {@link LogStore.clockAheadMs}. */
  readonly clockAheadMs: () => number | undefined;
  /** Called with the clients of each part that is new. */
  readonly onClients: (clients: readonly KnownClient[]) => void;
  /** Since 1970, and by a clock that never goes back. Default: those of the process. */
  readonly now?: () => number;
  readonly elapsed?: () => number;
  readonly log: Pick<Logger, 'debug'>;
}

/** A part whose pieces are of another version, or gone: another announcement has come meanwhile. */
class Replaced extends Error {}

/** The clients of a part, with what they hold. */
interface Shown {
  readonly numbers: readonly number[];
  readonly clients: readonly KnownClient[];
  /** Version of the part that says what they hold. */
  readonly heldVersion: number;
}

/** What was read of another instance. */
interface Mirror {
  /** The short text that it was read from. */
  readonly text: string;
  /** Undefined: that cannot be read, or what it names. */
  readonly head: PresenceHead | undefined;
  readonly view: InstanceView | undefined;
  /** What a time of it plus this is by our clock, as its times were moved. */
  readonly by: number | undefined;
  /** The same, as far as it was ever known. */
  readonly clockMs: number | undefined;
  /** Parts of clients, by their versions. */
  readonly shown: ReadonlyMap<number, Shown>;
  /** Times of changes, by the versions of their parts. */
  readonly times: ReadonlyMap<number, SharedTimes>;
  /** Shared by all of its clients that report all the time. */
  readonly heard: { afterMs: number };
}

interface Kept {
  readonly mirror: Mirror;
  /** When there was an announcement of the instance. */
  readonly listedMs: number;
}

/** A text that is to be read, and what is known already. */
interface Reading {
  readonly text: string;
  readonly head: PresenceHead;
  readonly by: number | undefined;
  readonly known: Pick<Mirror, 'shown' | 'times' | 'heard'> & { readonly view?: InstanceView | undefined };
  readonly withTimes: boolean;
}

/** The text of a part. */
type Parts = (ref: PartRef) => string;

/** A mirror is made anew if parts were replaced while they were read. */
const ATTEMPTS = 3;

/** Reads what the other instances announce: of each only the parts that have changed. */
export class PresenceReader {
  readonly #deps: Required<PresenceReaderDeps>;
  #kept: ReadonlyMap<string, Kept> = new Map();

  constructor(deps: PresenceReaderDeps) {
    this.#deps = { now: Date.now, elapsed: () => performance.now(), ...deps };
  }

  /**
   * Returns what there is of the other instances. One of which no whole was read is not among them,
   * if one was before. `withTimes`: with the times of changes. Rejects as the presence does.
   */
  async read(withTimes: boolean): Promise<{ readonly texts: ReadonlyMap<string, ReadText>; readonly readMs: number }> {
    for (let attempt = 1; ; attempt++) {
      const listed = await this.#deps.presence.list();
      const readMs = this.#deps.elapsed();
      const texts = new Map<string, ReadText>();
      const kept = new Map([...this.#kept].filter(([, { listedMs }]) => readMs - listedMs <= this.#deps.memoryMs));
      let isWhole = true;
      for (const [instance, found] of listed) {
        if (instance === this.#deps.instance) continue;
        const before = kept.get(instance)?.mirror;
        const mirror = await this.#mirrored(instance, found.text, { before, withTimes }).catch((error: unknown) => {
          if (error instanceof Replaced) return undefined;
          throw error;
        });
        if (mirror === undefined) isWhole = false;
        const latest = mirror ?? before;
        if (latest !== undefined) kept.set(instance, { mirror: latest, listedMs: readMs });
        // An older announcement says nothing new, neither that its instance is there.
        const isNews = mirror !== undefined && mirror.text === found.text;
        if (isNews || before === undefined) texts.set(instance, { ...found, view: mirror?.view });
      }
      this.#kept = kept;
      if (isWhole || attempt === ATTEMPTS) return { texts, readMs };
    }
  }

  /** All clients of the other instances, as they were read last. */
  get clients(): readonly (readonly KnownClient[])[] {
    return [...this.#kept.values()].map(({ mirror }) => mirror.view?.clients ?? []);
  }

  /**
   * The mirror of an instance; the one before if this text is older. May reject {@link Replaced}.
   */
  async #mirrored(
    instance: string,
    text: string,
    { before, withTimes }: { readonly before: Mirror | undefined; readonly withTimes: boolean },
  ): Promise<Mirror> {
    const hasTimes = !withTimes || before?.view === undefined || before.view.memory !== undefined;
    if (before?.text === text && hasTimes) return before;
    const head = await readHead(text).catch((error: unknown) => this.#unread(instance, error));
    if (head === undefined) return unreadable(text, before);
    if (before?.head !== undefined && rankOf(before.head) > rankOf(head)) return before;
    const by = clockDifference({ theirs: head.vitals?.clockAheadMs, ours: this.#deps.clockAheadMs() }, before?.clockMs);
    // Times are by our clock: of another difference all are others.
    const known = before?.head !== undefined && before.by === by ? before : nothingKnown();
    const reading = { text, head, by, known, withTimes };
    const parts = await this.#parts(instance, missingParts(reading));
    const made = await this.#made(reading, parts).catch((error: unknown) => this.#unread(instance, error));
    return made === undefined ? unreadable(text, before) : { ...made, clockMs: by ?? before?.clockMs };
  }

  #unread(instance: string, error: unknown): undefined {
    this.#deps.log.debug({ instance, error: errorText(error) }, 'cannot read the announcement of another instance');
  }

  /** Reads parts. Rejects as the presence does, and with {@link Replaced}. */
  async #parts(instance: string, refs: readonly PartRef[]): Promise<Parts> {
    const numbers = refs.flatMap(([, ...pieces]) => pieces);
    const found = numbers.length === 0 ? undefined : await this.#deps.presence.parts(instance, numbers);
    const texts = new Map<number, string>();
    for (const [version, ...pieces] of refs) {
      const text = joinedPieces(
        version,
        pieces.map((number) => found?.get(number)),
      );
      if (text === undefined) throw new Replaced('a part of an announcement is another one by now');
      texts.set(version, text);
    }
    return ([version]) => texts.get(version) ?? '';
  }

  async #made(reading: Reading, parts: Parts): Promise<Omit<Mirror, 'clockMs'>> {
    const { text, head, by, known, withTimes } = reading;
    const shown = new Map<number, Shown>();
    for (const sheet of head.sheets) {
      for (const [version, one] of await this.#sheet(sheet, reading, parts)) shown.set(version, one);
    }
    const times = new Map<number, SharedTimes>();
    for (const ref of head.times) {
      const its = known.times.get(ref[0]) ?? (withTimes ? await readTimesPart(parts(ref)) : undefined);
      if (its !== undefined) times.set(ref[0], its);
    }
    const { heard } = known;
    const nowMs = this.#deps.now();
    heard.afterMs = Math.min(head.heardAfterMs + (by ?? 0), nowMs);
    const [lists, before] = [shown, known.shown].map((all) => [...all.values()].map(({ clients }) => clients));
    const isSame = known.view !== undefined && isSameList(lists ?? [], before ?? []);
    const { instance, atMs, seen, ttlMs, hasEnded, vitals } = head;
    const view: InstanceView = {
      instance,
      atMs: by === undefined ? nowMs : Math.min(atMs + by, nowMs),
      ...{ seen, ttlMs },
      clients: isSame && known.view !== undefined ? known.view.clients : (lists ?? []).flat(),
      ...(hasEnded && { hasEnded }),
      ...(vitals !== undefined && { vitals: { ...vitals, startedMs: vitals.startedMs + (by ?? 0) } }),
    };
    if (!withTimes) return { text, head, by, shown, times, heard, view };
    const changes = head.changes === undefined ? [] : await readChangesPart(parts(head.changes));
    const memory = readMemory(changes, [...times.values()], clientOf(shown));
    return { text, head, by, shown, times, heard, view: { ...view, memory: by ? memoryMoved(memory, by) : memory } };
  }

  /** The parts of a sheet by version; clients that stay the same are the same objects. */
  async #sheet(
    { held: heldRef, clients: refs }: PresenceHead['sheets'][number],
    { by, known }: Reading,
    parts: Parts,
  ): Promise<(readonly [number, Shown])[]> {
    const [heldVersion] = heldRef;
    if (isShown(refs, heldRef, known.shown)) {
      return refs.flatMap(([version]) => {
        const one = known.shown.get(version);
        return one === undefined ? [] : [[version, one]];
      });
    }
    const told: ToldClients[] = [];
    for (const ref of refs) told.push(known.shown.get(ref[0]) ?? (await this.#told(parts(ref), by, known.heard)));
    const size = told.reduce((sum, { clients }) => sum + clients.length, 0);
    const held = await readHeld(parts(heldRef), size);
    let from = 0;
    return told.map(({ numbers, clients }, index) => {
      const now = withHeld(clients, held, from);
      from += clients.length;
      return [refs[index]?.[0] ?? 0, { numbers, clients: now, heldVersion }];
    });
  }

  async #told(text: string, by: number | undefined, heard: Mirror['heard']): Promise<ToldClients> {
    const { numbers, clients: theirs } = await readClientsPart(text, heard);
    const clients = by ? theirs.map((client) => clientMoved(client, by)) : theirs;
    this.#deps.onClients(clients);
    return { numbers, clients };
  }
}

function nothingKnown(): Reading['known'] {
  return { shown: new Map(), times: new Map(), heard: { afterMs: 0 } };
}

function unreadable(text: string, before: Mirror | undefined): Mirror {
  return { text, head: undefined, view: undefined, by: undefined, clockMs: before?.clockMs, ...nothingKnown() };
}

/** The parts that a text names and that are not known. */
function missingParts({ head, known, withTimes }: Reading): PartRef[] {
  const { sheets, times, changes } = head;
  const clients = sheets.flatMap((sheet) => sheet.clients).filter(([version]) => !known.shown.has(version));
  const held = sheets.filter((sheet) => !isShown(sheet.clients, sheet.held, known.shown)).map((sheet) => sheet.held);
  if (!withTimes) return [...clients, ...held];
  const missing = times.filter(([version]) => !known.times.has(version));
  return [...clients, ...held, ...missing, ...(changes === undefined ? [] : [changes])];
}

/** The later of two announcements. That an instance has ended is its last, whoever says it. */
function rankOf({ hasEnded, version }: PresenceHead): number {
  return hasEnded ? Number.POSITIVE_INFINITY : version;
}

/** Whether these clients, with what they hold, are as they were read before. */
function isShown(refs: readonly PartRef[], [held]: PartRef, shown: ReadonlyMap<number, Shown>): boolean {
  return refs.every(([version]) => shown.get(version)?.heldVersion === held);
}

/** The clients with what they hold; the same objects where that is what it was. */
function withHeld(
  clients: readonly KnownClient[],
  held: readonly KnownClient['position'][],
  from: number,
): readonly KnownClient[] {
  const now = clients.map((client, index) => {
    const position = held[from + index] ?? null;
    return isSamePosition(client.position, position) ? client : { ...client, position };
  });
  return isSameList(now, clients) ? clients : now;
}

function isSameList(one: readonly unknown[], other: readonly unknown[]): boolean {
  return one.length === other.length && one.every((each, index) => each === other[index]);
}

/** The key of a client by its number. */
function clientOf(shown: ReadonlyMap<number, Shown>): (number: number) => string | undefined {
  const keys = new Map<number, string>();
  for (const { numbers, clients } of shown.values())
    for (const [index, number] of numbers.entries()) keys.set(number, clients[index]?.key ?? '');
  return (number) => keys.get(number);
}
