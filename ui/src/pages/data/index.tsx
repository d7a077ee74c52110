import './data.css';
import { useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import {
  documentTree,
  matchesDocument,
  openAtFirst,
  pathsAbove,
  treeNodeAt,
  treeRows,
} from '../../../../src/fleet-rules/document-tree.js';
import { count, integer, size } from '../../../../src/fleet-rules/words.js';
import type { PageProps } from '../../app';
import { Banner } from '../../parts/banner';
import { Button } from '../../parts/button';
import { Empty, Failed, Loading } from '../../parts/empty';
import { SearchField } from '../../parts/search-field';
import { PageHead } from '../../parts/section';
import { Detail } from './detail';
import { Tree } from './tree';
import { type Documents, useDocuments } from './use-documents';

/** A tree of at most this many rows is open at first. */
const OPEN_ROWS = 60;
/** As in data.css. */
const NARROW = '(width < 1160px)';
/** Rows that are drawn: folding and searching make them fewer. */
const ROWS = 500;

/** The documents that a new client would write, by path. */
export function DataPage({ app, query }: PageProps) {
  const [reading, again] = useDocuments(app);
  const { value } = reading;
  if (value.kind === 'loading') return <Loading title="Data" />;
  if (value.kind === 'failed')
    return (
      <>
        <PageHead title="Data" />
        <Failed what="The documents are not here." error={value.error} retry={again} />
      </>
    );
  return (
    <>
      {value.error !== undefined && (
        <Failed what="What is below may be old: the last look failed." error={value.error} retry={again} />
      )}
      <Found app={app} data={value.data} query={query} />
    </>
  );
}

/** How large the documents are whose data the server has. */
function inlineText(known: number, total: number, bytes: number): string {
  if (known === 0) return 'none with inline data';
  return `${size(bytes)} in ${known === total ? 'all' : `the ${integer(known)} with inline data`}`;
}

interface FoundProps extends Pick<PageProps, 'app' | 'query'> {
  readonly data: Documents;
}

function Found({ app, data: { documents, total, head, externalSource, incomplete }, query }: FoundProps) {
  const { router } = app;
  const search = query.get('q') ?? '';
  const chosen = query.get('path');
  const tree = useMemo(
    () => documentTree(documents.filter((document) => matchesDocument(document, search))),
    [documents, search],
  );
  // Paths that were opened (true) or closed (false) by hand.
  const folds = useSignal<ReadonlyMap<string, boolean>>(new Map());
  const first = useMemo(() => openAtFirst(tree, OPEN_ROWS), [tree]);
  const above = useMemo(() => new Set(chosen === null ? [] : pathsAbove(tree, chosen)), [tree, chosen]);
  const isOpen = (path: string): boolean => folds.value.get(path) ?? (above.has(path) || first.has(path));
  const rows = treeRows(tree, isOpen);
  const node = chosen === null ? undefined : treeNodeAt(tree, chosen);
  const part = useRef<HTMLDivElement>(null);
  // A link to a path leads to its detail, too.
  const wantsDetail = useRef(chosen !== null && matchMedia(NARROW).matches);
  useEffect(() => {
    if (!wantsDetail.current) return;
    wantsDetail.current = false;
    part.current?.querySelector('.detail')?.scrollIntoView();
  });
  const bytes = documents.reduce((sum, document) => sum + (document.bytes ?? 0), 0);
  const known = documents.filter((document) => document.bytes !== null).length;

  return (
    <>
      <PageHead
        title="Data"
        end={
          <SearchField
            label="Search documents"
            placeholder="path, source:, topic:"
            value={search}
            onInput={(text) => router.setQuery({ q: text }, 'replace')}
          />
        }
      >
        <span class="muted">
          {count(total, 'document')}, {inlineText(known, total, bytes)},{' '}
          <span title="Served commits and the data configuration have numbers in the log, too">
            log at {integer(head)}
          </span>
        </span>
      </PageHead>
      {externalSource !== null && (
        <Banner kind="warn" what="Clients get their base entries elsewhere:">
          {externalSource}. What is below are the updates that this server has published.
        </Banner>
      )}
      {incomplete !== null && app.store.summary.value?.incomplete == null && (
        <Banner kind="warn" what="There may be more clients than are counted here:">
          {incomplete}.
        </Banner>
      )}
      {documents.length === 0 ? (
        <NoDocument />
      ) : rows.length === 0 ? (
        <Empty title="No document matches">
          <p>None of {count(documents.length, 'document')} has all of these words in its path, source or topics.</p>
          <Button onClick={() => router.setQuery({ q: undefined }, 'go')}>Clear the search</Button>
        </Empty>
      ) : (
        <div ref={part} class="data-split">
          <div class="tree-part">
            <Tree
              app={app}
              rows={rows.slice(0, ROWS)}
              chosen={chosen}
              onChoose={(path, how) => {
                // Where the detail stands below the tree, choosing a path goes there.
                wantsDetail.current = how === 'go' && matchMedia(NARROW).matches;
                router.setQuery({ path }, how);
              }}
              onToggle={(path) => {
                folds.value = new Map([...folds.value, [path, !isOpen(path)]]);
              }}
            />
            {rows.length > ROWS && (
              <p class="muted quiet">
                The first {integer(ROWS)} of {integer(rows.length)} rows. Fold a path, or search, to see the others.
              </p>
            )}
            {total > documents.length && (
              <p class="muted quiet">
                The first {integer(documents.length)} documents by path; GET /data/documents has all {integer(total)}.
              </p>
            )}
          </div>
          {node === undefined ? (
            <p class="muted detail none">
              {chosen === null
                ? 'Choose a path to see where it comes from, who gets it, and its history.'
                : `No document is at ${chosen}.`}
            </p>
          ) : (
            <Detail
              key={node.path}
              app={app}
              node={node}
              onBack={() => part.current?.querySelector<HTMLElement>('tr[tabindex="0"]')?.focus()}
            />
          )}
        </div>
      )}
    </>
  );
}

function NoDocument() {
  return (
    <Empty title="No document yet">
      <p>There is no document that this session may see. To publish one:</p>
      <pre>policysync publish --dst-path /hello --data {`'{"world": true}'`}</pre>
    </Empty>
  );
}
