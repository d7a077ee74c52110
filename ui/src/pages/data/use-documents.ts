import type { DataDocument, DocumentsAnswer } from '../../../../src/wire/fleet-views.js';
import type { App } from '../../app';
import { type Reading, useReading } from '../../parts/use-reading';

const PAGE = 1000;
const PAGES = 10;
const EVERY_MS = 5000;

export interface Documents {
  readonly documents: readonly DataDocument[];
  /** Of all, also those that were not read. */
  readonly total: number;
  readonly head: number;
  /** Where clients get their base entries; null: from this server. */
  readonly externalSource: string | null;
  /** Why there may be more clients than those that are counted. */
  readonly incomplete: string | null;
}

/** The documents of the log: read anew when it grows. */
export function useDocuments({
  api,
  store,
  stream,
}: App): readonly [{ readonly value: Reading<Documents> }, () => void] {
  return useReading({
    stream,
    key: 'documents',
    everyMs: EVERY_MS,
    moved: `${store.epoch.value} ${store.head.value}`,
    async read(signal) {
      const documents: DataDocument[] = [];
      let after: string | undefined;
      for (let page = 0; ; page++) {
        const answer = await api.get<DocumentsAnswer>('/data/documents', { limit: PAGE, after }, signal);
        documents.push(...answer.documents);
        const { next, total, head, incomplete, external_source: externalSource } = answer;
        if (next === null || page + 1 >= PAGES) return { documents, total, head, incomplete, externalSource };
        after = next;
      }
    },
  });
}
