import type { Limits } from '../../auth/caller.js';
import { SyncError } from '../../lib/errors.js';
import { type DocPath, isAtOrBelow, parseDocPath } from '../../wire/doc-path.js';
import type { ChangesAnswer, FleetChange } from '../../wire/fleet.js';
import { permittedPart } from '../changes/trace-parts.js';
import { isVisible } from '../clients/client-view.js';
import { byOurClock } from '../log/log-clock.js';
import { lookThrough, partFor } from '../log/look-through.js';
import type { AuditRecord, HistoryReader } from '../log/update-log.js';
import { type ChangeFacts, type DataFacts, dataFacts, newestFirst, type PolicyChange } from './change-facts.js';
import { withoutPublisher } from './change-rules.js';
import { type FleetSources, gather } from './gather.js';
import type { Gathered } from './gathered.js';
import { Slices } from './slices.js';
import { TrackedChanges } from './tracked-changes.js';

export interface ChangesQuery {
  /** `next` of the page before. */
  readonly before?: string | undefined;
  readonly limit: number;
  readonly kind?: 'policy' | 'data' | undefined;
  /** Only updates with an entry at, below or above this path. */
  readonly path?: DocPath | undefined;
  /** Only updates with an entry on this topic. */
  readonly topic?: string | undefined;
  readonly limits: Limits;
  /** Whether it sees who published an update, and why. */
  readonly seesPublisher: boolean;
}

/** Where the page before ended. */
interface Cursor {
  /** Updates before this one. */
  readonly seq: number;
  /** Commits that come after this one in the order of changes; undefined: all. */
  readonly commit: { readonly atMs: number; readonly key: string } | undefined;
}

/** A page ends when the updates on it have so many characters of topics, paths and reasons. */
const PAGE_CHARS = 4 * 1024 * 1024;

/** A page of commits and updates, newest first. Rejects a wrong `before` with `request_invalid`. */
export async function readChanges(sources: FleetSources, query: ChangesQuery): Promise<ChangesAnswer> {
  const { log } = sources;
  const cursor = query.before === undefined ? { seq: log.head + 1, commit: undefined } : parseCursor(query.before);
  const slices = new Slices();
  const gathered = await gatherWithAbouts(sources, slices);
  const found = query.kind === 'policy' ? NO_UPDATES : await findUpdates(log, query, cursor.seq);
  const { untilMs } = found;
  const isOfData = query.kind === 'data' || query.path !== undefined || query.topic !== undefined;
  const left = isOfData ? [] : gathered.commits.filter((commit) => isAfter(commit, cursor.commit));
  // Where the log was not looked through to its end, older commits wait for the next page.
  const commits = untilMs === undefined ? left : left.filter(({ atMs }) => atMs >= untilMs);
  const merged = [...found.updates, ...commits].sort(newestFirst);
  const page = merged.slice(0, query.limit);
  const isLast = page.length === merged.length && found.next === undefined && commits.length === left.length;
  const changes = await measured(page, { gathered, limits: query.limits, slices });
  return {
    epoch: log.epoch,
    changes: query.seesPublisher ? changes : changes.map(withoutPublisher),
    next: isLast ? null : cursorText(nextCursor(page, cursor, page.length === merged.length ? found.next : undefined)),
  };
}

/** What the repository says decides the order of commits that nobody remembers. */
async function gatherWithAbouts(sources: FleetSources, slices: Slices): Promise<Gathered> {
  const gathered = await gather(sources, slices);
  const reading = sources.abouts.read(gathered.commits.map(({ key }) => key));
  if (reading === undefined) return gathered;
  await slices.outside(reading);
  return await gather(sources, slices);
}

interface FoundUpdates {
  readonly updates: readonly DataFacts[];
  /** Where to go on; undefined: that is all. */
  readonly next: number | undefined;
  /** Time of the last row that was looked at; undefined: all were. */
  readonly untilMs: number | undefined;
}
const NO_UPDATES: FoundUpdates = { updates: [], next: undefined, untilMs: undefined };

async function findUpdates(log: HistoryReader, query: ChangesQuery, from: number): Promise<FoundUpdates> {
  const part = partFor(log, { ...query.limits, topic: query.topic });
  if (part === undefined) return NO_UPDATES;
  const updates: DataFacts[] = [];
  let chars = 0;
  let isFull = false;
  const rest = await lookThrough(log, from, part, (record) => {
    // The question is about what the caller may see: another answer would tell of the rest.
    const permitted = permittedPart(record, query.limits);
    const facts =
      permitted !== undefined && asked(permitted, query) ? dataFacts(log, permitted, query.limits) : undefined;
    if (facts === undefined) return true;
    updates.push(facts);
    chars += charsOf(facts);
    isFull = updates.length >= query.limit || chars >= PAGE_CHARS;
    return !isFull;
  });
  const last = isFull ? updates.at(-1) : undefined;
  if (last !== undefined) return { updates, next: last.key, untilMs: last.atMs };
  const untilMs = rest?.timeMs === undefined ? undefined : byOurClock(log, rest.timeMs);
  return { updates, next: rest?.next, untilMs };
}

function charsOf({ reason, topics, paths }: DataFacts): number {
  let chars = reason?.length ?? 0;
  for (const texts of [topics, paths]) for (const text of texts) chars += text.length;
  return chars;
}

function asked({ entries }: AuditRecord, { path, topic }: ChangesQuery): boolean {
  return entries.some(({ dst_path, topics }) => {
    if (topic !== undefined && !topics.includes(topic)) return false;
    if (path === undefined) return true;
    const own = parseDocPath(dst_path);
    return isAtOrBelow(own, path) || isAtOrBelow(path, own);
  });
}

async function measured(
  page: readonly ChangeFacts[],
  { gathered, limits, slices }: { gathered: Gathered; limits: Limits; slices: Slices },
): Promise<FleetChange[]> {
  const visible = gathered.named.filter(([, client]) => isVisible(client, limits));
  const all = visible.map(([, client], slot) => ({ client, slot }));
  return await new TrackedChanges().look(
    page,
    { all, changed: [], gone: [] },
    { ...gathered, isLimited: limits.isLimited },
    slices,
  );
}

function isAfter(commit: PolicyChange, last: Cursor['commit']): boolean {
  if (last === undefined) return true;
  return commit.atMs < last.atMs || (commit.atMs === last.atMs && commit.key < last.key);
}

/** `looked`: how far the log was looked through, where that is farther than the page goes. */
function nextCursor(page: readonly ChangeFacts[], before: Cursor, looked: number | undefined): Cursor {
  const update = page.findLast((change) => change.kind === 'data');
  const commit = page.findLast((change) => change.kind === 'policy');
  return { seq: looked ?? update?.key ?? before.seq, commit: commit ?? before.commit };
}

function cursorText({ seq, commit }: Cursor): string {
  return commit === undefined ? `${seq}` : `${seq}.${commit.atMs}.${commit.key}`;
}

function parseCursor(text: string): Cursor {
  const [, seq, atMs, key] = /^(\d{1,15})(?:\.(\d{1,15})\.([0-9a-f]{1,64}))?$/.exec(text) ?? [];
  if (seq === undefined)
    throw new SyncError('request_invalid', '`before` must be the value of `next` of the page before');
  return {
    seq: Number(seq),
    commit: atMs === undefined || key === undefined ? undefined : { atMs: Number(atMs), key },
  };
}
