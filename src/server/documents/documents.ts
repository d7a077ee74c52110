import { isPermittedPath } from '../../auth/authorize.js';
import type { Limits } from '../../auth/caller.js';
import { redactUrl } from '../../lib/log.js';
import type { Places } from '../../lib/places.js';
import { type DocPath, docPathText } from '../../wire/doc-path.js';
import type { DataDocument, DocumentsAnswer, HidingDeletion } from '../../wire/fleet-views.js';
import { hiddenData } from '../hidden-data.js';
import { byOurClock } from '../log/log-clock.js';
import type { FoldedEntry, UpdateLog } from '../log/update-log.js';
import type { AllClients } from '../sessions/all-clients.js';
import { isVisible, visiblePart } from '../sessions/client-view.js';
import { kindText } from '../sessions/known-client.js';
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
import { InlineDigests } from './inline-digests.js';

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
  readonly log: Pick<UpdateLog, 'epoch' | 'head' | 'fold' | 'clockAheadMs'>;
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
/** A page ends when it has so many characters, or when so many of inline data were hashed for it. */
const PAGE = { chars: 1024 * 1024, hashed: 16 * 1024 * 1024 } as const;

/** Lists what a new client would write, path by path, without the values. */
export function createDocuments(deps: DocumentsDeps): (query: DocumentsQuery) => Promise<DocumentsAnswer> {
  const { log, externalSource } = deps;
  const ourTime = (timeMs: number | undefined): number | null =>
    timeMs === undefined ? null : byOurClock(log, timeMs);
  const rows = new DocumentRows(deps.updatesRetained);
  const digests = new InlineDigests();

  async function viewOf(
    text: string,
    at: DocumentAt,
    { reach, sees, isLimited }: { reach: DocumentReach; sees: boolean; isLimited: boolean },
  ): Promise<DataDocument> {
    const { main, newest, topics } = at;
    const { url, data, save_method: method } = main.entry;
    const digest = data ? await digests.of(data) : null;
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
      changed_at: ourTime(newest.update?.timeMs),
      retained_until: ourTime(newest.expiresMs),
      topics: [...topics].slice(0, TOPICS_SHOWN),
      clients,
      refused_by: refusedBy,
      refusal: worst === undefined ? null : refusalOf(worst, isLimited),
      patches: at.patches,
      versions: at.versions,
    };
  }

  return async ({ prefix, after, limit, limits, seesPublisher }) => {
    const all = await deps.everyone();
    const visible = all.named.map(([, client]) => client).filter((client) => isVisible(client, limits));
    const reach = new DocumentReach(visible.map((client) => visiblePart(client, limits)));
    const { permittedTopics, permittedPaths } = limits;
    const seesTopic = (topic: string): boolean => permittedTopics?.has(topic) ?? true;
    const sees = ({ entry }: FoldedEntry): boolean => entry.topics.some(seesTopic);
    const { epoch } = log;
    const { rows: grouped, deletions, head } = await rows.of(log.fold(), log.head);
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
      if (data && !digests.has(data)) hashed += data.text.length;
      if (documents.length > 0 && (hashed > PAGE.hashed || chars > PAGE.chars)) break;
      const view = await viewOf(docPathText(row.path), at, { reach, sees: seesPublisher, isLimited: limits.isLimited });
      chars += JSON.stringify(view).length;
      documents.push(view);
    }
    const hiding: HidingDeletion[] = [];
    await forEachInTurns(rangeOf(deletions, { prefix }).rows, ({ path, entries }) => {
      const newest = entries.findLast(sees);
      if (hiding.length >= DELETIONS_SHOWN || newest === undefined || !isPermittedPath(path, permittedPaths)) return;
      const hides = hiddenData([newest.entry], deps.dataPlaces());
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
  };
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

/** The worst failure as a caller sees it: the text of its kind, and for callers without limits what the client says. */
function refusalOf({ kind, error, clients }: NonNullable<Reach['worst']>, isLimited: boolean): DataDocument['refusal'] {
  const text = kindText(kind);
  return { kind: kind ?? null, clients, text: isLimited || error === undefined ? text : `${text}: ${error}` };
}
