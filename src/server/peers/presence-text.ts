import * as z from 'zod';
import { instant } from '../../wire/instant.js';
import { position } from '../../wire/session.js';
import { clientText, knownClient, packJson, toldPosition, unpackJson } from '../clients/client-text.js';
import { isSamePosition, type KnownClient } from '../clients/known-client.js';
import { type OtherMemory, sharedChanges, sharedTimes } from './shared-times.js';
import { type Vitals, vitalsText } from './vitals.js';

/**
 * The announcement of an instance, as texts for `LogStore.presence`: a short one, written all the
 * time, names the parts that hold the clients. A part is written when something of it has changed,
 * each time under another version, and never where one is that may still be named. So whoever reads
 * a short text and the parts that it names has the whole, as it was at one moment, or knows that it
 * has not.
 */

/** Raised with each change of these texts: an instance reads no other. */
const FORMAT = 1;

/** What another instance says, read. */
export interface InstanceView {
  readonly instance: string;
  /** Time of the announcement, in milliseconds since 1970; once read, by our clock. */
  readonly atMs: number;
  /** Last seq of the log that the instance had seen. */
  readonly seen: number;
  readonly clients: readonly KnownClient[];
  /** It has ended in order: its clients are away until they come elsewhere. */
  readonly hasEnded?: true | undefined;
  /** How long the announcement is kept; undefined: {@link OLDER_TTL_MS}. */
  readonly ttlMs?: number | undefined;
  /** When the last changes came how far there; undefined: it does not say, or was not asked. */
  readonly memory?: OtherMemory | undefined;
  /** How the instance is; undefined: it does not say. */
  readonly vitals?: Vitals | undefined;
}

/** How long an announcement counts that does not say it. */
export const OLDER_TTL_MS = 10_000;
/** Characters of one piece of a part: backbones limit what they take at once. */
export const PIECE = 64 * 1024;
/** Most characters of a short text. */
const MAX_HEAD = 512 * 1024;

const count = z.number().int().nonnegative();

/** A part: its version, and the numbers under which its pieces are. */
const partRef = z.tuple([count], count);
export type PartRef = readonly [version: number, ...pieces: number[]];

const head = z.object({
  format: z.literal(FORMAT),
  instance: z.string(),
  atMs: instant,
  /** Rises with each announcement: an older one that is read later says nothing new. */
  version: count,
  seen: count,
  hasEnded: z.literal(true).optional(),
  ttlMs: instant.positive(),
  /** Clients that report all the time did so after this. */
  heardAfterMs: instant,
  /** What clients of some parts hold, and these parts, in one order of clients. */
  sheets: z.array(z.object({ held: partRef, clients: z.array(partRef) })),
  /** The last changes; missing: it remembers none. */
  changes: partRef.optional(),
  /** Of the clients with them. */
  times: z.array(partRef),
  vitals: vitalsText.optional().catch(undefined),
});

/** The short text. */
export interface PresenceHead {
  readonly instance: string;
  readonly atMs: number;
  readonly version: number;
  readonly seen: number;
  readonly hasEnded?: true | undefined;
  readonly ttlMs: number;
  readonly heardAfterMs: number;
  readonly sheets: readonly { readonly held: PartRef; readonly clients: readonly PartRef[] }[];
  readonly changes?: PartRef | undefined;
  readonly times: readonly PartRef[];
  readonly vitals?: Vitals | undefined;
}

export function printHead(said: PresenceHead): Promise<string> {
  return packJson({ format: FORMAT, ...said });
}

/** Parses a short text. Rejects if it is none, or of another format. */
export async function readHead(text: string): Promise<PresenceHead> {
  if (text.length > MAX_HEAD) throw new RangeError(`an announcement of ${text.length} characters`);
  const value = await unpackJson(text);
  const { format } = z.object({ format: z.number() }).parse(value);
  if (format !== FORMAT) throw new RangeError(`an announcement of format ${format}: this version reads ${FORMAT}`);
  return head.parse(value);
}

/** A part with its version, cut into pieces. */
export function piecesOf(version: number, text: string): string[] {
  const whole = `${version}:${text}`;
  return Array.from({ length: Math.ceil(whole.length / PIECE) }, (_, index) =>
    whole.slice(index * PIECE, (index + 1) * PIECE),
  );
}

/** The text of a part; undefined: these are not the pieces of this version. */
export function joinedPieces(version: number, pieces: readonly (string | undefined)[]): string | undefined {
  const prefix = `${version}:`;
  if (pieces.includes(undefined) || pieces[0]?.startsWith(prefix) !== true) return undefined;
  return pieces.join('').slice(prefix.length);
}

const numbered = clientText.extend({
  /** The client within its instance, for ever. */
  n: count,
  /** It reports all the time. */
  reports: z.literal(true).optional(),
});
const clientsPart = z.object({ topics: z.array(z.array(z.string())), clients: z.array(numbered) });
export type NumberedText = z.input<typeof numbered>;

/** Clients of another instance, and their numbers. What they hold is told elsewhere. */
export interface ToldClients {
  readonly clients: readonly KnownClient[];
  readonly numbers: readonly number[];
}

/** Reads a part of clients. `heard`: what those get that report all the time. */
export async function readClientsPart(text: string, heard: NonNullable<KnownClient['heard']>): Promise<ToldClients> {
  const { topics, clients } = clientsPart.parse(await unpackJson(text));
  return {
    clients: clients.map(({ n: _, reports, ...client }) => ({
      ...knownClient(client, topics),
      ...(reports && { heard }),
    })),
    numbers: clients.map(({ n }) => n),
  };
}

type Held = KnownClient['position'];

const heldPart = z.object({
  positions: z.array(position.nullable()),
  /** Index of a position, and how many clients have it, one after the other. */
  runs: z.array(z.tuple([count, count])),
});

/** Prints what clients hold: most hold the same. */
export function printHeld(held: Iterable<Held>): z.input<typeof heldPart> {
  const positions: Held[] = [];
  const indexes = new Map<string | number, number>();
  const runs: [number, number][] = [];
  let last: Held | undefined;
  for (const at of held) {
    const run = runs.at(-1);
    if (run !== undefined && last !== undefined && isSamePosition(last, at)) {
      run[1]++;
      continue;
    }
    last = at;
    const key = keyOf(at, positions[0]?.epoch);
    const index = indexes.get(key) ?? positions.push(at === null ? null : toldPosition(at)) - 1;
    indexes.set(key, index);
    if (run !== undefined && run[0] === index) run[1]++;
    else runs.push([index, 1]);
  }
  return { positions, runs };
}

/** Equal for equal positions; quickly made of usual ones: of one log, without exceptions. */
function keyOf(at: Held, epoch: string | undefined): string | number {
  const isUsual = at?.epoch === epoch && at?.applied_beyond.length === 0 && at.unresolved.length === 0;
  return isUsual ? at.applied_through : JSON.stringify(at);
}

/** Reads what clients hold, one after the other; they must be so many. */
export async function readHeld(text: string, clients: number): Promise<readonly Held[]> {
  const { positions, runs } = heldPart.parse(await unpackJson(text));
  const total = runs.reduce((sum, [, length]) => sum + length, 0);
  if (total !== clients) throw new RangeError(`what ${total} clients hold, of ${clients}`);
  const held: Held[] = [];
  for (const [index, length] of runs) {
    const at = positions[index];
    if (at === undefined) throw new RangeError(`position ${index} of ${positions.length}`);
    for (let more = 0; more < length; more++) held.push(at);
  }
  return held;
}

export async function readChangesPart(text: string): Promise<z.output<typeof sharedChanges>> {
  return sharedChanges.parse(await unpackJson(text));
}

export async function readTimesPart(text: string): Promise<z.output<typeof sharedTimes>> {
  return sharedTimes.parse(await unpackJson(text));
}
