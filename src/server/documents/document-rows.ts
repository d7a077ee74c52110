import { type DocPath, isAtOrBelow, parseDocPath } from '../../wire/doc-path.js';
import { baseIdentity } from '../log/base-entry.js';
import type { FoldedEntry } from '../log/update-log.js';
import { forEachInTurns, sortedInTurns } from './in-turns.js';

/**
 * All that is live at one path, in the order in which a new client applies it. At least one entry
 * is no deletion.
 */
export interface DocumentRow {
  readonly path: DocPath;
  readonly entries: readonly FoldedEntry[];
}

/** The document of a row, as far as a caller sees it. */
export interface DocumentAt {
  /** The document itself; without one, the last patch. */
  readonly main: FoldedEntry;
  /** What changed last. */
  readonly newest: FoldedEntry;
  readonly topics: ReadonlySet<string>;
  /** The seqs of all its entries. */
  readonly seqs: readonly number[];
  readonly patches: number;
  /** Documents at the path: clients of different topics may hold different ones. */
  readonly versions: number;
}

/** Rows are made again at most in this part of the time, however often the fold changes. */
const SHARE = 1 / 10;
/** How long rows are kept that nobody asks for. */
const KEPT_MS = 60_000;

/** What a fold has. */
export interface DocumentsOf {
  readonly rows: readonly DocumentRow[];
  /** Deletions, by path. */
  readonly deletions: readonly DocumentRow[];
}

interface Made {
  readonly fold: readonly FoldedEntry[];
  /** Last row of the log that the fold has. */
  readonly head: number;
  readonly rows: Promise<DocumentsOf>;
  /** Until then it counts as the newest. */
  freshUntilMs: number;
}

/**
 * Groups a fold by path, in the order of the paths, in turns of the event loop: a fold may have a
 * hundred thousand entries.
 */
export class DocumentRows {
  readonly #updatesRetained: boolean;
  #made: Made | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** `updatesRetained`: whether new clients get updates (SYNC_DATA_UPDATES_RETAINED). */
  constructor(updatesRetained: boolean) {
    this.#updatesRetained = updatesRetained;
  }

  /**
   * The rows of a fold at `head`; of a large one that has just changed, those of a moment ago, with
   * the head of that time.
   */
  async of(fold: readonly FoldedEntry[], head: number): Promise<DocumentsOf & { readonly head: number }> {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#made = undefined;
    }, KEPT_MS);
    this.#timer.unref();
    const known = this.#made;
    const isKnown = known !== undefined && (known.fold === fold || performance.now() < known.freshUntilMs);
    const made = isKnown ? known : this.#make(fold, head);
    return { ...(await made.rows), head: made.fold === fold ? head : made.head };
  }

  #make(fold: readonly FoldedEntry[], head: number): Made {
    const startedMs = performance.now();
    const rows = groupedRows(fold, this.#updatesRetained);
    const made: Made = { fold, head, rows, freshUntilMs: Number.POSITIVE_INFINITY };
    this.#made = made;
    const done = (): void => {
      const nowMs = performance.now();
      made.freshUntilMs = nowMs + (nowMs - startedMs) / SHARE - (nowMs - startedMs);
      // Few entries take no time: then the rows are always those of the fold.
      if (fold.length <= ALWAYS_FRESH) made.freshUntilMs = 0;
    };
    made.rows.then(done, () => {
      this.#made = undefined; // the next caller tries again
    });
    return made;
  }
}

/** Folds of this size are grouped in less than a millisecond or two. */
const ALWAYS_FRESH = 2000;

async function groupedRows(fold: readonly FoldedEntry[], updatesRetained: boolean): Promise<DocumentsOf> {
  const placed: { readonly path: DocPath; readonly entry: FoldedEntry }[] = [];
  await forEachInTurns(fold, (entry) => {
    if (updatesRetained || entry.origin === 'base') {
      placed.push({ path: entry.path ?? parseDocPath(entry.entry.dst_path), entry });
    }
  });
  const sorted = await sortedInTurns(placed, (a, b) => compareDocPaths(a.path, b.path));
  const rows: DocumentRow[] = [];
  const deletions: DocumentRow[] = [];
  let path: DocPath | undefined;
  let entries: FoldedEntry[] = [];
  const end = (): void => {
    const applied = withoutRepetitions(entries);
    if (path === undefined) return;
    if (applied.some(isLive)) rows.push({ path, entries: applied });
    const removed = applied.filter((entry) => !isLive(entry));
    if (removed.length > 0) deletions.push({ path, entries: removed });
  };
  await forEachInTurns(sorted, (one) => {
    if (path === undefined || compareDocPaths(path, one.path) !== 0) {
      end();
      [path, entries] = [one.path, []];
    }
    entries.push(one.entry);
  });
  end();
  return { rows, deletions };
}

/**
 * The entries of one path without updates that repeat a base entry: a new client gets that alone.
 */
function withoutRepetitions(entries: FoldedEntry[]): FoldedEntry[] {
  const base = entries.filter(({ origin }) => origin === 'base');
  if (base.length === 0 || base.length === entries.length) return entries;
  const identities = new Set(base.map(({ entry }) => baseIdentity(entry)));
  return entries.filter(({ origin, entry }) => origin === 'base' || !identities.has(baseIdentity(entry)));
}

function isLive({ entry }: FoldedEntry): boolean {
  return entry.save_method !== 'DELETE';
}

/** Compares segment by segment: what is below a path comes right after it. */
export function compareDocPaths(a: DocPath, b: DocPath): number {
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index++) {
    const [one = '', other = ''] = [a[index], b[index]];
    if (one !== other) return one < other ? -1 : 1;
  }
  return a.length - b.length;
}

/** The rows at or below a path. */
export interface RowRange {
  readonly rows: readonly DocumentRow[];
  /** Index of the first of them that comes after another path. */
  readonly from: number;
}

/**
 * Returns the rows at or below `prefix` (default: all), and where those begin that come after
 * `after`.
 */
export function rangeOf(
  all: readonly DocumentRow[],
  { prefix = [], after }: { readonly prefix?: DocPath | undefined; readonly after?: DocPath | undefined },
): RowRange {
  const first = firstWhere(all, ({ path }) => compareDocPaths(path, prefix) >= 0);
  const until = firstWhere(all, ({ path }) => compareDocPaths(path, prefix) > 0 && !isAtOrBelow(path, prefix));
  const rows = first === 0 && until === all.length ? all : all.slice(first, until);
  return { rows, from: after === undefined ? 0 : firstWhere(rows, ({ path }) => compareDocPaths(path, after) > 0) };
}

/** The index of the first row for which a condition holds that holds for all after it. */
function firstWhere(rows: readonly DocumentRow[], holds: (row: DocumentRow) => boolean): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const row = rows[middle];
    if (row !== undefined && holds(row)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Whether a caller sees something live of a row. */
export function isSeen({ entries }: DocumentRow, sees: (entry: FoldedEntry) => boolean): boolean {
  return entries.some((entry) => isLive(entry) && sees(entry));
}

/** The document of a row, made of the entries that `sees` accepts; undefined if there is none. */
export function documentAt(
  { entries }: DocumentRow,
  sees: (entry: FoldedEntry) => boolean,
  seesTopic: (topic: string) => boolean,
): DocumentAt | undefined {
  const live = entries.filter((one) => isLive(one) && sees(one));
  const newest = live.at(-1);
  if (newest === undefined) return undefined;
  const documents = live.filter(({ entry }) => entry.save_method === 'PUT');
  const main = documents.at(-1) ?? newest;
  const stacked = live.filter((one) => one.entry.save_method === 'PATCH' && one !== main).length;
  return {
    main,
    newest,
    topics: new Set(live.flatMap(({ entry }) => entry.topics).filter(seesTopic)),
    seqs: live.map(({ seq }) => seq),
    patches: (main.patches ?? 0) + stacked,
    versions: documents.length,
  };
}
