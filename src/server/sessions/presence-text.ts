import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import * as z from 'zod';
import { parseJson } from '../../lib/json.js';
import { instant } from '../../wire/instant.js';
import { NO_LABELS, peerLabels } from '../../wire/labels.js';
import { asks, clientId, position, sessionReport } from '../../wire/session.js';
import { type Vitals, vitalsText } from '../instances/vitals.js';
import type { TraceMemory } from '../trace/change-times.js';
import { type OtherMemory, printTimes, readTimes, sharedTimes, timesFor } from '../trace/shared-times.js';
import { clientKey, type KnownClient, NO_ASKS, shortPosition } from './known-client.js';

/** The announcement of an instance as text for `LogStore.presence`: JSON, compressed if large, and bounded (NATS allows 1 MiB). */

/** The clients of an instance. */
export interface InstanceView {
  readonly instance: string;
  /** Time of the announcement, in milliseconds since 1970; once read, by our clock. */
  readonly atMs: number;
  /** Last seq of the log that the instance had seen. */
  readonly seen: number;
  readonly clients: readonly KnownClient[];
  /** Number of clients left out for size. */
  readonly leftOut: number;
  /** It has ended in order: nobody is connected to it any more, and its clients are away until they come elsewhere. */
  readonly hasEnded?: true | undefined;
  /** How long the announcement is kept; undefined: it is of an older version, and that kept it {@link OLDER_TTL_MS}. */
  readonly ttlMs?: number | undefined;
  /** When the last changes came how far there; undefined: it does not say. */
  readonly memory?: OtherMemory | undefined;
  /** How the instance is; undefined: it does not say. */
  readonly vitals?: Vitals | undefined;
}

/** The view of this instance. */
export interface OwnView extends Omit<InstanceView, 'memory'> {
  readonly memory?: TraceMemory | undefined;
}

const MAX_TEXT = 512 * 1024;
/** How long older versions keep an announcement. */
export const OLDER_TTL_MS = 10_000;
/** Most clients that said goodbye: the newest. The older a goodbye is, the less likely somebody still takes the client for away. */
const MAX_GOODBYES = 1000;
/** Prefix of compressed texts. */
const COMPRESSED = 'gzip:';
const COMPRESS_FROM = 16 * 1024;
const MAX_UNPACKED_BYTES = 16 * 1024 * 1024;
/** Values of a text: some 50 for each client, and eight for each time of one. */
const MAX_VALUES = 2_000_000;
/** Maximum seqs per list. */
const MAX_SEQS = 50;

const compress = promisify(gzip);
const decompress = promisify(gunzip);

const seq = z.number().int().nonnegative();

const clientText = z.object({
  clientId: z.union([clientId, z.literal('')]),
  /** Missing from older versions. */
  subject: z.string().nullable().default(null),
  twin: z.string().optional(),
  isDoubtful: z.boolean().optional(),
  claimedMs: instant.default(0),
  topicsLeftOut: seq.default(0),
  /** Missing from older versions, and where there are none. */
  labels: peerLabels.optional().catch(undefined),
  /** Missing from older versions, and where it can be asked nothing. */
  asks: asks.optional().catch(undefined),
  kind: z.enum(['session', 'plain']),
  instance: z.string(),
  address: z.string(),
  /** Index into the lists of topics: most clients have the same. */
  topics: seq,
  spans: z.array(
    z.object({
      from: seq,
      until: seq.nullable(),
      fromMs: instant.optional(),
      untilMs: instant.optional(),
    }),
  ),
  connectedAtMs: instant,
  awaySinceMs: instant.nullable(),
  /** Missing from older versions, and where it is not known. */
  awayReason: z.string().max(300).optional().catch(undefined),
  saidGoodbye: z.literal(true).optional().catch(undefined),
  openedAtMs: instant.optional().catch(undefined),
  position: position.nullable(),
  state: sessionReport.omit({ client_id: true, position: true }).nullable(),
  reportedAtMs: instant.nullable(),
  lastError: z.object({ path: z.string(), error: z.string(), kind: z.string().optional(), atMs: instant }).nullable(),
});

const viewText = z.object({
  instance: z.string(),
  atMs: instant,
  seen: seq,
  topics: z.array(z.array(z.string())),
  clients: z.array(clientText),
  leftOut: seq,
  hasEnded: z.literal(true).optional().catch(undefined),
  ttlMs: instant.positive().optional().catch(undefined),
  /** Missing from older versions. */
  changes: sharedTimes.optional(),
  vitals: vitalsText.optional().catch(undefined),
});

/** Prints a view. If the text is too long, leaves out times of changes, then clients: those that said goodbye first, then those that are away. */
export async function printView(view: OwnView, maxText = MAX_TEXT): Promise<string> {
  const expected = view.clients.filter(({ saidGoodbye }) => !saidGoodbye);
  const goodbyes = view.clients.filter(({ saidGoodbye }) => saidGoodbye);
  goodbyes.sort((a, b) => (b.awaySinceMs ?? 0) - (a.awaySinceMs ?? 0));
  expected.sort((a, b) => Number(a.awaySinceMs !== null) - Number(b.awaySinceMs !== null));
  const sorted = [...expected, ...goodbyes.slice(0, MAX_GOODBYES)];
  let times = timesFor(expected.length);
  for (let kept = sorted.length; ; ) {
    const leftOut = view.leftOut + Math.max(0, expected.length - kept);
    const json = JSON.stringify(plain({ ...view, clients: sorted.slice(0, kept), leftOut }, times));
    const text = Buffer.byteLength(json) > MAX_UNPACKED_BYTES ? json : await pack(json);
    if (text.length <= maxText || kept === 0) return text;
    if (times > 0 && view.memory !== undefined) times = 0;
    else kept = Math.min(kept - 1, Math.floor((kept * maxText * 0.9) / text.length));
  }
}

/** Parses the text of a view. Rejects if it is invalid, or larger than any that {@link printView} makes. */
export async function readView(text: string): Promise<InstanceView> {
  if (text.length > MAX_TEXT) throw new RangeError(`an announcement of ${text.length} characters`);
  const json = text.startsWith(COMPRESSED)
    ? String(
        await decompress(Buffer.from(text.slice(COMPRESSED.length), 'base64'), {
          maxOutputLength: MAX_UNPACKED_BYTES,
        }),
      )
    : text;
  const { topics, clients, changes, ...view } = viewText.parse(parseJson(json, { values: MAX_VALUES }));
  const known = clients.map((client) => ({
    ...client,
    key: clientKey(client),
    topics: topics[client.topics] ?? [],
    labels: client.labels ?? NO_LABELS,
    asks: client.asks ?? NO_ASKS,
  }));
  if (changes === undefined) return { ...view, clients: known };
  return { ...view, clients: known, memory: readTimes(changes, (index) => known[index]?.key) };
}

async function pack(json: string): Promise<string> {
  if (json.length < COMPRESS_FROM) return json;
  return COMPRESSED + (await compress(json)).toString('base64');
}

function plain({ clients, memory, ...view }: OwnView, times: number): z.input<typeof viewText> {
  const lists = new Map<string, number>();
  const topics: string[][] = [];
  const shown = clients.map((client) => {
    const key = client.topics.join('\n');
    let index = lists.get(key);
    if (index === undefined) {
      index = topics.push([...client.topics]) - 1;
      lists.set(key, index);
    }
    const { state, key: _made, labels, asks: kinds, ...rest } = client;
    return {
      ...rest,
      topics: index,
      ...(Object.keys(labels).length > 0 && { labels }),
      ...(kinds.length > 0 && { asks: [...kinds] }),
      spans: [...client.spans],
      position: client.position === null ? null : shortPosition(client.position, MAX_SEQS),
      state:
        state === null
          ? null
          : { ...state, failing: state.failing.slice(0, 3), blocked: state.blocked.slice(0, MAX_SEQS) },
    };
  });
  if (memory === undefined) return { ...view, topics, clients: shown };
  const places = new Map(clients.map(({ key }, index) => [key, index]));
  const indexOf = (client: string): number | undefined => places.get(client);
  return { ...view, topics, clients: shown, changes: printTimes(memory, { indexOf, most: times }) };
}
