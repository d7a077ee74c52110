import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { sleep } from '../../src/lib/run/async.js';
import type { Journal } from './journal.js';
import type { PlacedEntry } from './model.js';
import type { RunOptions } from './options.js';
import type { Program } from './program.js';
import type { Sample } from './sampler.js';
import type { SubscriberCounts } from './subscribers.js';
import { isDead, type World } from './world.js';

/** What a run comes to, in figures. */
export interface Figures {
  readonly seed: number;
  readonly seconds: number;
  readonly instances: number;
  readonly log: string;
  readonly updates_published: number;
  readonly updates_acknowledged: number;
  readonly updates_refused: number;
  /** No answer came, and it was not sent again; so many of them are in the log all the same. */
  readonly updates_unknown: number;
  readonly updates_unknown_in_log: number;
  /** Requests of publishers: more than updates, since a part is sent until the outcome is known. */
  readonly publish_requests: number;
  /** First request to answer, all attempts of an update. */
  readonly acknowledged_ms: { readonly median: number; readonly p99: number; readonly max: number };
  readonly faults: Readonly<Record<string, number>>;
  readonly starts: { readonly servers: number; readonly clients: number };
  /** Connections that clients made again within one life. */
  readonly reconnects: number;
  /** Of the client that was farthest behind, by its own word, dead sources left out. */
  readonly max_lag: { readonly updates: number; readonly seconds: number };
  /** From the last update until every client is at rest, and a newcomer from its start. */
  readonly converged_ms: { readonly clients: number; readonly newcomer: number; readonly subscribers: number };
  /** Subscribers without engines, their connections, and how often one had to begin anew by the fold. */
  readonly subscribers?: SubscriberCounts;
  /** Resident memory: most of one program at any time, and most of one at the end. */
  readonly memory_mib: {
    readonly server: { readonly max: number; readonly end: number };
    readonly client: { readonly max: number; readonly end: number };
  };
  /** How many waits for all clients had each status. */
  readonly waits: Readonly<Record<number, number>>;
  /** How many samples of engines came after a "Yes" of the page, and were held against it. */
  readonly page_yes: number;
  readonly engine_samples: number;
  readonly source_requests: number;
}

/** Most memory of one program of a kind. */
export interface Memory {
  max: number;
  end: number;
}

const MIB = 1024 * 1024;
const LOOK_MS = 500;

/** Looks at the memory of programs of one kind until the signal aborts. */
export async function watchMemory(programs: readonly Program[], signal: AbortSignal): Promise<Memory> {
  const memory: Memory = { max: 0, end: 0 };
  while (!signal.aborted) {
    const now = Math.max(0, ...programs.map((own) => own.memoryBytes() ?? 0)) / MIB;
    if (now > 0) memory.end = now;
    memory.max = Math.max(memory.max, now);
    await sleep(LOOK_MS, signal).catch(() => undefined); // aborted: the loop ends
  }
  return { max: Math.round(memory.max), end: Math.round(memory.end) };
}

/** How many of the publications have which outcome, and how long those that were acknowledged took. */
export function updateFigures(
  journal: Journal,
): Pick<
  Figures,
  | 'updates_published'
  | 'updates_acknowledged'
  | 'updates_refused'
  | 'updates_unknown'
  | 'updates_unknown_in_log'
  | 'publish_requests'
  | 'acknowledged_ms'
> {
  const { publications } = journal;
  const having = (wanted: string): number => publications.filter(({ outcome }) => outcome === wanted).length;
  const took = publications
    .flatMap(({ answeredMs, sentMs }) => (answeredMs === undefined ? [] : [answeredMs - sentMs]))
    .sort((a, b) => a - b);
  const at = (share: number): number => Math.round(took[Math.floor((took.length - 1) * share)] ?? 0);
  return {
    updates_published: publications.length,
    updates_acknowledged: having('acknowledged'),
    updates_refused: having('refused'),
    updates_unknown: having('unknown'),
    updates_unknown_in_log: publications.filter(({ outcome, seq }) => outcome === 'unknown' && seq !== undefined)
      .length,
    publish_requests: publications.reduce((sum, { attempts }) => sum + attempts, 0),
    acknowledged_ms: { median: at(0.5), p99: at(0.99), max: at(1) },
  };
}

/**
 * How far a client was behind at most, by what it said of its position: updates that were acknowledged by then and that
 * no life of it had had yet, and the age of the oldest. `answeredMs`: when each update was acknowledged, by its seq.
 */
export function lagOf(
  samples: readonly Sample[],
  entries: readonly PlacedEntry[],
  answeredMs: ReadonlyMap<number, number>,
): Figures['max_lag'] {
  const seqs = new Set(entries.filter(({ path }) => !isDead(path)).map(({ seq }) => seq));
  const coming = [...answeredMs].filter(([seq]) => seqs.has(seq)).sort(([, a], [, b]) => b - a);
  const open = new Map<number, number>();
  const lag = { updates: 0, seconds: 0 };
  for (const { position, atMs } of samples) {
    if (position === undefined) continue;
    const unresolved = new Set(position.unresolved);
    for (let next = coming.at(-1); next !== undefined && next[1] < atMs; next = coming.at(-1)) {
      open.set(...next);
      coming.pop();
    }
    for (const seq of [...open.keys()]) if (seq <= position.through && !unresolved.has(seq)) open.delete(seq);
    const oldestMs = Math.min(atMs, ...open.values());
    lag.updates = Math.max(lag.updates, open.size);
    lag.seconds = Math.max(lag.seconds, (atMs - oldestMs) / 1000);
  }
  return { updates: lag.updates, seconds: Number(lag.seconds.toFixed(1)) };
}

/** Starts of programs, and connections that clients made beyond one for each start. */
export function connectionFigures({ instances, clients }: World, dir: string): Pick<Figures, 'starts' | 'reconnects'> {
  const lives = (programs: readonly { program: Program }[]): number =>
    programs.reduce((sum, { program }) => sum + program.life, 0);
  const connected = clients.map(
    ({ program: { name } }) => readFileSync(join(dir, `${name}.log`), 'utf8').split('"msg":"connected"').length - 1,
  );
  const made = connected.reduce((sum, count) => sum + count, 0);
  return {
    starts: { servers: lives(instances), clients: lives(clients) },
    reconnects: Math.max(0, made - lives(clients)),
  };
}

/** What was run, for {@link Figures}. */
export function runFigures(options: RunOptions): Pick<Figures, 'seed' | 'seconds' | 'instances' | 'log'> {
  const { seed, seconds, instances, backbone } = options;
  return { seed, seconds, instances, log: backbone ?? 'embedded' };
}

/** One line for each figure. */
export function figuresTable(figures: Figures): string {
  const rows = Object.entries(figures).map(([name, value]) => [name.replaceAll('_', ' '), shown(value)] as const);
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, text]) => `  ${name.padEnd(width)}  ${text}`).join('\n');
}

function shown(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value);
  const parts = Object.entries(value).map(([name, part]) => {
    const text = shown(part);
    return typeof part === 'object' ? `${name} (${text})` : `${name} ${text}`;
  });
  return parts.join(', ');
}
