import { sleep } from '../../src/lib/run/async.js';
import { type Answer, field, postJson } from '../support/http.js';
import { asked } from './asked.js';
import type { Journal, Publication } from './journal.js';
import type { Entry, Json, Op } from './model.js';
import type { Random } from './random.js';
import type { Sources } from './sources.js';

/** Topics of a run; `gamma/one` also reaches who subscribed to `gamma`. */
const TOPICS = ['alpha', 'beta', 'gamma', 'gamma/one'] as const;
export const SUBSCRIBED = ['alpha', 'beta', 'gamma'] as const;

/** A topic of one client alone. */
export function ownTopic(client: number): string {
  return `own-${client}`;
}

/** The tree that publishers write to: 10 x 5 x 6 leaves, and what is above them. The bundle has data in the last root. */
const ROOTS = Array.from({ length: 10 }, (_, at) => `/t/r${at}`);
const KEYS = ['a', 'b', 'c', 'd', 'e'];
const LEAVES = ['0', '1', '2', '3', '4', '5'];
const LIVE_PATHS = 6;
const BIG_PATHS = 5;
/** Larger than what a socket takes at once, so that a cut is in the midst of a frame. */
const BIG_CHARS = 150_000;
/** Larger than what a client sends to its engine while it is still read. */
const HUGE_CHARS = { least: 1_100_000, most: 1_700_000 };

/** What publishers work with. */
export interface PublishDeps {
  readonly journal: Journal;
  readonly sources: Sources;
  readonly draw: Random;
  /** Where to publish now: one of the instances. */
  readonly serverUrl: () => string;
  readonly now: () => number;
  /** All publications are sent until their outcome is known. */
  readonly alwaysKeyed: boolean;
  /** Wait between two publications, on average. */
  readonly paceMs: number;
}

/** Longest time for an answer: more than any wait asks for, or one that is not answered in time would be sent again for ever. */
const PATIENCE_MS = 60_000;

/** What is no answer to a publication: nobody knows, or nothing was recorded; a keyed one is sent again. */
const RETRIED = new Set([429, 500, 502, 503, 504, 507]);

/** Sends a publication; a keyed one again and again until the outcome is known. Never rejects. */
export async function publish(
  publication: Publication,
  deps: Pick<PublishDeps, 'serverUrl' | 'now'>,
  query = '',
): Promise<Answer | undefined> {
  const headers: Record<string, string> = publication.isKeyed ? { 'idempotency-key': publication.id } : {};
  for (;;) {
    publication.attempts++;
    try {
      const answer = await postJson(`${deps.serverUrl()}/data/config${query}`, publication.body, headers, PATIENCE_MS);
      publication.answer = `${answer.status} ${answer.text.slice(0, 300)}`;
      const seq = field(answer.json, 'seq');
      if ((answer.status === 200 || answer.status === 202) && typeof seq === 'number') {
        publication.seq = seq;
        publication.epoch = String(field(answer.json, 'epoch'));
        publication.outcome = 'acknowledged';
        publication.answeredMs = deps.now();
        return answer;
      }
      if (!RETRIED.has(answer.status)) {
        publication.outcome = 'refused';
        return answer;
      }
      if (!publication.isKeyed) {
        publication.outcome = answer.status === 507 || answer.status === 429 ? 'refused' : 'unknown';
        return answer;
      }
    } catch (error) {
      // The connection ended, or was never made: it may be in the log.
      publication.answer = String(error);
      if (!publication.isKeyed) {
        publication.outcome = 'unknown';
        return undefined;
      }
    }
    await sleep(100, new AbortController().signal);
  }
}

/** Publishes to the tree until the signal aborts; then ends what it has begun. */
export async function publishTree(deps: PublishDeps, signal: AbortSignal): Promise<void> {
  const { journal, draw } = deps;
  while (!signal.aborted) {
    const urls = new Map<number, string>();
    const entries = Array.from({ length: draw.chance(0.2) ? draw.int(2, 4) : 1 }, () => drawEntry(deps, urls));
    const isKeyed = deps.alwaysKeyed || draw.chance(0.6);
    await publish(journal.add(entries, { isKeyed, sentMs: deps.now(), urls }), deps);
    await sleep(draw.next() * 2 * deps.paceMs, signal).catch(() => undefined); // aborted: the loop ends
  }
}

function drawEntry({ journal, draw, sources }: PublishDeps, urls: Map<number, string>): Entry {
  const n = journal.nextNumber();
  const topics = [...new Set(Array.from({ length: draw.int(1, 3) }, () => draw.pick(TOPICS)))];
  if (draw.chance(0.03)) {
    const isHuge = draw.chance(0.25);
    const size = isHuge ? draw.int(HUGE_CHARS.least, HUGE_CHARS.most) : draw.int(1000, BIG_CHARS);
    const value = { n, pad: 'x'.repeat(size) };
    if (isHuge) urls.set(n, sources.serve(`/doc/${n}`, JSON.stringify(value)));
    return { n, path: `/big/${draw.int(1, BIG_PATHS)}`, topics, what: { method: 'PUT', value } };
  }
  const root = draw.pick(ROOTS);
  const depth = draw.chance(0.015) ? 0 : draw.chance(0.25) ? 1 : 2;
  const path = [root, draw.pick(KEYS), draw.pick(LEAVES)].slice(0, depth + 1).join('/');
  const kind = draw.next();
  if (kind < 0.12) return { n, path, topics, what: { method: 'DELETE' } };
  if (kind < 0.35 && depth > 0) return { n, path, topics, what: { method: 'PATCH', ops: drawOps(draw, n, depth) } };
  const value = document(draw, n, depth);
  if (draw.chance(0.4)) urls.set(n, sources.serve(`/doc/${n}`, JSON.stringify(value)));
  return { n, path, topics, what: { method: 'PUT', value } };
}

/** A document that says of each of its parts where it is from; with some of the places below that others write to. */
function document(draw: Random, n: number, depth: number): Json {
  const names = depth === 0 ? KEYS : depth === 1 ? LEAVES : ['x', 'y'];
  const members = names.filter(() => draw.chance(0.4)).map((name) => [name, { n }] as const);
  return { n, ...Object.fromEntries(members) };
}

function drawOps(draw: Random, n: number, depth: number): Op[] {
  const names = depth === 1 ? LEAVES : ['x', 'y', 'z'];
  return Array.from({ length: draw.int(1, 2) }, (): Op => {
    const path = `/${draw.pick(names)}`;
    if (draw.chance(0.25)) return { op: 'remove', path };
    return { op: 'add', path, value: { n } };
  });
}

/** One that does more than to publish: see {@link publishLive} and {@link publishAndAsk}. */
export interface AskingDeps extends PublishDeps {
  /** Asks a client whether it has applied a publication, then its engine; answers what is wrong. */
  readonly ask: (client: number, publication: Publication) => Promise<void>;
  readonly clients: number;
  /** What tells the lives of the clients apart. */
  readonly lives: () => readonly string[];
  /** How long an answer is waited for. */
  readonly waitSeconds: number;
  /** Holds the answer of a wait against the engines. */
  readonly judgeWait: (publication: Publication, lives: readonly string[], answer: Answer) => Promise<void>;
}

/** Documents whose URL stays and whose content changes with each publication: `v` counts. */
export async function publishLive(
  deps: PublishDeps,
  versions: Map<string, number>,
  signal: AbortSignal,
): Promise<void> {
  const { draw } = deps;
  while (!signal.aborted) {
    await publishVersion(`/live/${draw.int(1, LIVE_PATHS)}`, deps, versions);
    await sleep(draw.next() * 4 * deps.paceMs, signal).catch(() => undefined); // aborted: the loop ends
  }
}

/** All of them once more, so that the last version of each is published. */
export async function publishLastVersions(deps: PublishDeps, versions: Map<string, number>): Promise<void> {
  for (const path of [...versions.keys()]) await publishVersion(path, deps, versions);
}

async function publishVersion(path: string, deps: PublishDeps, versions: Map<string, number>): Promise<void> {
  const { journal, sources } = deps;
  const v = (versions.get(path) ?? 0) + 1;
  versions.set(path, v);
  const n = journal.nextNumber();
  const url = sources.serve(path, JSON.stringify({ v }));
  const entry: Entry = { n, path, topics: [...SUBSCRIBED], what: { method: 'PUT', value: { v } } };
  await publish(journal.add([entry], { isKeyed: true, sentMs: deps.now(), urls: new Map([[n, url]]) }), deps);
}

/** Publishes and asks a client at once whether it has it: a yes is checked in its engine. */
export async function publishAndAsk(deps: AskingDeps, signal: AbortSignal): Promise<void> {
  const { draw, journal } = deps;
  while (!signal.aborted) {
    const n = journal.nextNumber();
    const what = { method: 'PUT' as const, value: { n } };
    const entry: Entry = { n, path: `/probe/${draw.int(1, 3)}`, topics: [...SUBSCRIBED], what };
    const publication = journal.add([entry], { isKeyed: true, sentMs: deps.now(), urls: new Map() });
    await publish(publication, deps);
    await deps.ask(draw.int(0, deps.clients - 1), publication);
    await sleep(draw.next() * 4 * deps.paceMs, signal).catch(() => undefined); // aborted: the loop ends
  }
}

/** Share of waits for one client alone: with faults all the time one more often has an update than all at once. */
const ALONE = 0.7;

/**
 * Publishes and waits until all clients have it, or the only one that it concerns: a yes is checked in their engines. Each waiter has places
 * of its own, where a higher number is a later update.
 */
export async function publishAndWait(waiter: number, deps: AskingDeps, signal: AbortSignal): Promise<void> {
  const { draw, journal } = deps;
  while (!signal.aborted) {
    const n = journal.nextNumber();
    const what = { method: 'PUT' as const, value: { n } };
    const alone = draw.chance(ALONE) ? draw.int(0, deps.clients - 1) : undefined;
    const where =
      alone === undefined
        ? { path: `/probe/w${waiter}`, topics: [...SUBSCRIBED] }
        : { path: `/probe/w${waiter}-${alone}`, topics: [ownTopic(alone)] };
    const entry: Entry = { n, ...where, what };
    const lives = deps.lives();
    const publication = journal.add([entry], { isKeyed: true, sentMs: deps.now(), urls: new Map() });
    const answer = await publish(publication, deps, `?wait=applied&timeout=${deps.waitSeconds}s`);
    if (answer !== undefined) await deps.judgeWait(publication, lives, answer);
    await sleep(draw.next() * 4 * deps.paceMs, signal).catch(() => undefined); // aborted: the loop ends
  }
}

/** Reads the whole log, newest first: which of the publications are in it, by id, each with all its places. */
export async function readLog(serverUrl: string): Promise<{ epoch: string; places: Map<string, number[]> }> {
  const places = new Map<string, number[]>();
  let epoch = '';
  for (let before: number | null | undefined; before !== null; ) {
    const url = `${serverUrl}/data/log?limit=1000${before === undefined ? '' : `&before=${before}`}`;
    const answer = await asked(url);
    if (answer.status !== 200) throw new Error(`GET /data/log: ${answer.status} ${answer.text}`);
    const page = answer.json as { epoch: string; updates: { id: string; seq: number }[]; next: number | null };
    epoch = page.epoch;
    for (const { id, seq } of page.updates) places.set(id, [...(places.get(id) ?? []), seq]);
    before = page.next;
  }
  return { epoch, places };
}
