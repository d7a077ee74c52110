import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import * as z from 'zod';
import { parseJson } from '../../lib/json/json.js';
import { instant } from '../../wire/instant.js';
import { NO_LABELS, peerLabels } from '../../wire/labels.js';
import { asks, clientId, position, sessionReport } from '../../wire/session.js';
import { clientKey, type KnownClient, NO_ASKS, shortPosition } from './known-client.js';

/** Clients as JSON for other instances and the state folder, compressed if it is large. */

/** Prefix of compressed texts. */
const COMPRESSED = 'gzip:';
const COMPRESS_FROM = 16 * 1024;
/** What a text may have when it is unpacked. */
const MAX_UNPACKED_BYTES = 16 * 1024 * 1024;
/** Values of a text: some 50 for each client, and eight for each time of one. */
const MAX_VALUES = 2_000_000;
/** Maximum seqs per list. */
const MAX_SEQS = 50;
/** Texts are written far more often than they are kept. */
const QUICKLY = { level: 1 };

const compress = promisify<string, { level: number }, Buffer>(gzip);
const decompress = promisify(gunzip);

const seq = z.number().int().nonnegative();

export const clientText = z.object({
  clientId: z.union([clientId, z.literal('')]),
  subject: z.string().nullable().default(null),
  twin: z.string().optional(),
  isDoubtful: z.boolean().optional(),
  claimedMs: instant.default(0),
  topicsLeftOut: seq.default(0),
  /** Missing where there are none. */
  labels: peerLabels.optional().catch(undefined),
  /** Missing where it can be asked nothing. */
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
  /** Missing where it is not known. */
  awayReason: z.string().max(300).optional().catch(undefined),
  saidGoodbye: z.literal(true).optional().catch(undefined),
  openedAtMs: instant.optional().catch(undefined),
  position: position.nullable(),
  state: sessionReport.omit({ client_id: true, position: true }).nullable(),
  reportedAtMs: instant.nullable(),
  lastError: z.object({ path: z.string(), error: z.string(), kind: z.string().optional(), atMs: instant }).nullable(),
});
export type ClientText = z.input<typeof clientText>;

export const clientsText = z.object({ topics: z.array(z.array(z.string())), clients: z.array(clientText) });

/** The lists of topics of a text: each once. */
export class TopicLists {
  readonly lists: string[][] = [];
  readonly #indexes = new Map<string, number>();

  indexOf(topics: readonly string[]): number {
    const key = topics.join('\n');
    const index = this.#indexes.get(key) ?? this.lists.push([...topics]) - 1;
    this.#indexes.set(key, index);
    return index;
  }
}

/** A client as JSON that {@link knownClient} reads. */
export function printClient(client: KnownClient, topics: TopicLists): ClientText {
  const { state, key: _made, heard: _ours, labels, asks: kinds, ...rest } = client;
  return {
    ...rest,
    topics: topics.indexOf(client.topics),
    labels: Object.keys(labels).length > 0 ? labels : undefined,
    asks: kinds.length > 0 ? [...kinds] : undefined,
    spans: [...client.spans],
    position: client.position === null ? null : toldPosition(client.position),
    state:
      state === null
        ? null
        : { ...state, failing: state.failing.slice(0, 3), blocked: state.blocked.slice(0, MAX_SEQS) },
  };
}

/** A position as it is told: at most so much as is true. */
export function toldPosition(at: NonNullable<KnownClient['position']>): NonNullable<KnownClient['position']> {
  return shortPosition(at, MAX_SEQS);
}

/** The client that a text is of. */
export function knownClient(client: z.output<typeof clientText>, topics: readonly (readonly string[])[]): KnownClient {
  return {
    ...client,
    key: clientKey(client),
    topics: topics[client.topics] ?? [],
    labels: client.labels ?? NO_LABELS,
    asks: client.asks ?? NO_ASKS,
  };
}

/** Clients as JSON. */
export function printClients(clients: readonly KnownClient[]): z.input<typeof clientsText> {
  const topics = new TopicLists();
  const printed = clients.map((client) => printClient(client, topics));
  return { topics: topics.lists, clients: printed };
}

/** Reads what {@link printClients} wrote. Throws if it is something else. */
export function clientsFromText(value: unknown): KnownClient[] {
  const { topics, clients } = clientsText.parse(value);
  return clients.map((client) => knownClient(client, topics));
}

/** A value as text of JSON, in ASCII where it is long. */
export async function packJson(value: unknown): Promise<string> {
  const json = JSON.stringify(value);
  return json.length < COMPRESS_FROM ? json : COMPRESSED + (await compress(json, QUICKLY)).toString('base64');
}

/** The value of a {@link packJson} text. Rejects any other, and one larger than we make. */
export async function unpackJson(text: string): Promise<unknown> {
  if (text.length > MAX_UNPACKED_BYTES) throw new RangeError(`a text of ${text.length} characters`);
  const json = text.startsWith(COMPRESSED)
    ? String(
        await decompress(Buffer.from(text.slice(COMPRESSED.length), 'base64'), {
          maxOutputLength: MAX_UNPACKED_BYTES,
        }),
      )
    : text;
  return parseJson(json, { values: MAX_VALUES });
}
