import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isPermittedPath } from '../../auth/authorize.js';
import type { Limits } from '../../auth/caller.js';
import type { JsonText } from '../../lib/json/json-text.js';
import type { Places } from '../../lib/net/places.js';
import { redactUrl } from '../../lib/observe/log.js';
import { type DocPath, docPathText } from '../../wire/doc-path.js';
import type { DataDocument, DocumentsAnswer, HidingDeletion } from '../../wire/fleet-views.js';
import { isVisible, visiblePart } from '../clients/client-view.js';
import { kindText } from '../clients/known-client.js';
import { byOurClock } from '../log/log-clock.js';
import type { FoldedEntry, FoldReader } from '../log/update-log.js';
import type { AllClients } from '../peers/all-clients.js';
import { hiddenData } from '../publish/hidden-data.js';
import { DocumentReach, type Reach } from './document-reach.js';
import {
  type DocumentAt,
  type DocumentRow,
  DocumentRows,
  documentAt,
  isSeen,
  type RowRange,
  rangeOf,
} from './document-rows.js';
import { forEachInTurns } from './in-turns.js';

export interface DocumentsQuery {
  /** Only documents at or below this path. */
  readonly prefix?: DocPath | undefined;
  /** Only documents whose paths come after this one. */
  readonly after?: DocPath | undefined;
  /** Page size. */
  readonly limit: number;
  readonly limits: Limits;
  /** Whether it sees who published, and why. */
  readonly seesPublisher: boolean;
}

export interface DocumentsDeps {
  readonly log: FoldReader;
  readonly everyone: () => Promise<AllClients>;
  /** SYNC_DATA_UPDATES_RETAINED. */
  readonly updatesRetained: boolean;
  /** Where the served commit has data; undefined while that is not known. */
  readonly dataPlaces: () => Places | undefined;
  /** The address of the API that has the base entries, if it is not this server. */
  readonly externalSource: string | undefined;
}

const TOPICS_SHOWN = 20;
const DELETIONS_SHOWN = 100;
/** Characters of an address that are shown. */
const SOURCE_CHARS = 2000;
/**
 * A page ends when it has so many characters, or when so many of inline data were hashed for it.
 */
const PAGE = { chars: 1024 * 1024, hashed: 16 * 1024 * 1024 } as const;

/** Lists what a new client would write, path by path, without the values. */
export class DocumentList {
  readonly #deps: DocumentsDeps;
  readonly #rows: DocumentRows;
  readonly #digests = new InlineDigests();

  constructor(deps: DocumentsDeps) {
    this.#deps = deps;
    this.#rows = new DocumentRows(deps.updatesRetained);
  }

  async page({ prefix, after, limit, limits, seesPublisher }: DocumentsQuery): Promise<DocumentsAnswer> {
    const all = await this.#deps.everyone();
    const visible = all.named.map(([, client]) => client).filter((client) => isVisible(client, limits));
    const reach = new DocumentReach(visible.map((client) => visiblePart(client, limits)));
    const { permittedTopics, permittedPaths } = limits;
    const seesTopic = (topic: string): boolean => permittedTopics?.has(topic) ?? true;
    const sees = ({ entry }: FoldedEntry): boolean => entry.topics.some(seesTopic);
    const { log, externalSource } = this.#deps;
    const { epoch } = log;
    const { rows: grouped, deletions, head } = await this.#rows.of(log.fold(), log.head);
    const range = rangeOf(grouped, { prefix, after });
    const isWhole = permittedTopics === undefined && permittedPaths === undefined;
    const isSeenRow = (row: DocumentRow): boolean => isPermittedPath(row.path, permittedPaths) && isSeen(row, sees);
    // One more than the page, to know whether there is another one.
    const { total, next } = isWhole ? firstOf(range, limit + 1) : await firstSeen(range, limit + 1, isSeenRow);
    const documents: DataDocument[] = [];
    let chars = 0;
    let hashed = 0;
    for (const row of next.slice(0, limit)) {
      const at = documentAt(row, sees, seesTopic);
      if (at === undefined) continue;
      const { data } = at.main.entry;
      if (data && !this.#digests.has(data)) hashed += data.text.length;
      if (documents.length > 0 && (hashed > PAGE.hashed || chars > PAGE.chars)) break;
      const view = await this.#viewOf(docPathText(row.path), at, {
        reach,
        sees: seesPublisher,
        isLimited: limits.isLimited,
      });
      chars += JSON.stringify(view).length;
      documents.push(view);
    }
    const hiding: HidingDeletion[] = [];
    await forEachInTurns(rangeOf(deletions, { prefix }).rows, ({ path, entries }) => {
      const newest = entries.findLast(sees);
      if (hiding.length >= DELETIONS_SHOWN || newest === undefined || !isPermittedPath(path, permittedPaths)) return;
      const hides = hiddenData([newest.entry], this.#deps.dataPlaces());
      if (hides.length === 0) return;
      const topics = newest.entry.topics.filter(seesTopic).slice(0, TOPICS_SHOWN);
      hiding.push({ path: docPathText(path), seq: newest.seq, topics, hides });
    });
    return {
      ...{ epoch, head, total, documents },
      ...(hiding.length > 0 && { deletions: hiding }),
      next: documents.length < next.length ? (documents.at(-1)?.path ?? null) : null,
      external_source: externalSource === undefined ? null : redactUrl(externalSource),
      incomplete: all.incomplete,
    };
  }

  async #viewOf(
    text: string,
    at: DocumentAt,
    { reach, sees, isLimited }: { reach: DocumentReach; sees: boolean; isLimited: boolean },
  ): Promise<DataDocument> {
    const { main, newest, topics } = at;
    const { url, data, save_method: method } = main.entry;
    const digest = data ? await this.#digests.of(data) : null;
    const { clients, refusedBy, worst } = reach.of(text, at);
    return {
      path: text,
      origin: main.origin,
      source: data ? 'inline' : redactUrl(url).slice(0, SOURCE_CHARS),
      method,
      seq: newest.seq,
      update_id: newest.update?.id ?? null,
      reason: sees ? (newest.update?.reason ?? null) : null,
      publisher: sees ? (newest.update?.publisher ?? null) : null,
      bytes: digest?.bytes ?? null,
      hash: digest?.hash ?? null,
      changed_at: this.#ourTime(newest.update?.timeMs),
      retained_until: this.#ourTime(newest.expiresMs),
      topics: [...topics].slice(0, TOPICS_SHOWN),
      clients,
      refused_by: refusedBy,
      refusal: worst === undefined ? null : refusalOf(worst, isLimited),
      patches: at.patches,
      versions: at.versions,
    };
  }

  #ourTime(timeMs: number | undefined): number | null {
    return timeMs === undefined ? null : byOurClock(this.#deps.log, timeMs);
  }
}

interface Found {
  /** Rows of all pages. */
  readonly total: number;
  /** The first rows of this page and of what follows. */
  readonly next: readonly DocumentRow[];
}

function firstOf({ rows, from }: RowRange, count: number): Found {
  return { total: rows.length, next: rows.slice(from, from + count) };
}

/** {@link firstOf} of the rows that a limited caller sees. */
async function firstSeen(
  { rows, from }: RowRange,
  count: number,
  isSeenRow: (row: DocumentRow) => boolean,
): Promise<Found> {
  const next: DocumentRow[] = [];
  let [at, total] = [0, 0];
  await forEachInTurns(rows, (row) => {
    const isAfter = at++ >= from;
    if (!isSeenRow(row)) return;
    total++;
    if (isAfter && next.length < count) next.push(row);
  });
  return { total, next };
}

/**
 * The worst failure as a caller sees it: the text of its kind, and for callers without limits what
 * the client says.
 */
function refusalOf({ kind, error, clients }: NonNullable<Reach['worst']>, isLimited: boolean): DataDocument['refusal'] {
  const text = kindText(kind);
  return { kind: kind ?? null, clients, text: isLimited || error === undefined ? text : `${text}: ${error}` };
}

/** Size and hash of inline data. */
interface InlineDigest {
  readonly bytes: number;
  /** SHA-256 of the text in UTF-8, in hex. */
  readonly hash: string;
}

/** Characters that are hashed in one turn of the event loop: about a millisecond. */
const AT_ONCE_CHARS = 256 * 1024;

/** Hashes inline data once, by identity, without keeping it. */
export class InlineDigests {
  readonly #known = new WeakMap<JsonText, Promise<InlineDigest>>();

  has(data: JsonText): boolean {
    return this.#known.has(data);
  }

  of(data: JsonText): Promise<InlineDigest> {
    let digest = this.#known.get(data);
    if (digest === undefined) {
      digest = digestOf(data.text);
      this.#known.set(data, digest);
    }
    return digest;
  }
}

async function digestOf(text: string): Promise<InlineDigest> {
  const hash = createHash('sha256');
  let bytes = 0;
  for (let from = 0; from < text.length; ) {
    if (from > 0) await nextTurn();
    const until = wholeUntil(text, Math.min(from + AT_ONCE_CHARS, text.length));
    const part = Buffer.from(text.slice(from, until));
    hash.update(part);
    bytes += part.length;
    from = until;
  }
  return { bytes, hash: hash.digest('hex') };
}

/** The same place, or the one after it if a character of two units would be cut. */
function wholeUntil(text: string, until: number): number {
  const last = text.charCodeAt(until - 1);
  return last >= 0xd800 && last <= 0xdbff && until < text.length ? until + 1 : until;
}
