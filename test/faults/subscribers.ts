import { join } from 'node:path';
import { type Child, type Failed, startChild } from '../support/child.js';
import { field } from '../support/http.js';
import { until } from '../support/until.js';
import type { Journal, Publication } from './journal.js';
import type { Timeline } from './timeline.js';
import type { PlacedUpdate } from './told.js';

/** What the process is told. */
export type Order =
  | {
      readonly do: 'start';
      readonly name: string;
      readonly count: number;
      readonly urls: readonly string[];
      /** Of the first, the second ...; then again from the first on. */
      readonly topics: readonly (readonly string[])[];
    }
  | { readonly do: 'cut' }
  | { readonly do: 'lack'; readonly epoch: string; readonly seq: number; readonly topics: readonly string[] }
  | { readonly do: 'judge'; readonly epoch: string; readonly placed: readonly PlacedUpdate[] }
  | { readonly do: 'counts' };

/** What it answers. */
export type Report =
  | Failed
  | { readonly found: readonly string[]; readonly counts?: { readonly connections: number; readonly folds: number } };

/** What all subscribers of a run did. */
export interface SubscriberCounts {
  readonly count: number;
  readonly connections: number;
  readonly folds: number;
}

const PROCESSES = 2;
const TOPICS = [['alpha'], ['beta'], ['gamma'], ['gamma/one'], ['alpha', 'beta'], ['alpha', 'beta', 'gamma']] as const;
const READY_MS = 120_000;

/** Subscribers of one process. Orders are carried out one after the other. */
class Crowd {
  readonly name: string;
  readonly child: Child<Order, Report>;
  #last: Promise<unknown> = Promise.resolve();

  constructor(name: string) {
    this.name = name;
    this.child = startChild<Order, Report>(join(import.meta.dirname, 'subscribers-process.js'));
  }

  order(what: Order): Promise<Exclude<Report, Failed>> {
    const done = this.#last.then(() => this.child.order(what));
    this.#last = done.catch(() => undefined); // whoever gave the order has the failure
    return done;
  }
}

/**
 * Subscribers of our protocol without engines, in processes of their own. They follow the instances themselves, without a cable, and
 * are part of the fleet: instances list them, and waits count them. `await using` ends them.
 */
export class Subscribers implements AsyncDisposable {
  readonly #count: number;
  readonly #crowds: readonly Crowd[];

  private constructor(count: number) {
    this.#count = count;
    this.#crowds = Array.from({ length: Math.min(PROCESSES, count) }, (_, at) => new Crowd(`subscriber-${at}`));
  }

  /** Starts so many, and returns when each has read the log. */
  static async start(count: number, urls: readonly string[]): Promise<Subscribers> {
    const all = new Subscribers(count);
    try {
      await Promise.all(
        all.#crowds.map(({ name }, at) =>
          all.#order(at, { do: 'start', name, count: Math.ceil((count - at) / PROCESSES), urls, topics: TOPICS }),
        ),
      );
      await until(async () => (await all.counts()).folds >= count, {
        withinMs: READY_MS,
        what: 'every subscriber follows',
      });
      return all;
    } catch (error) {
      await all[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** How many processes they are in. */
  get processes(): number {
    return this.#crowds.length;
  }

  /** All connections of a process end at once; its subscribers connect again. */
  async cut(process: number): Promise<void> {
    await this.#order(process, { do: 'cut' });
  }

  /** A process stands still; its connections stay. */
  freeze(at: number): void {
    this.#signal(at, 'SIGSTOP');
  }

  thaw(at: number): void {
    this.#signal(at, 'SIGCONT');
  }

  async counts(): Promise<SubscriberCounts> {
    const found = await this.#all({ do: 'counts' });
    const sum = (of: 'connections' | 'folds'): number =>
      found.reduce((total, { counts }) => total + (counts?.[of] ?? 0), 0);
    return { count: this.#count, connections: sum('connections'), folds: sum('folds') };
  }

  /** A 200 of a wait says that all have it, but for those that it names as away. */
  async judgeWait({ seq = 0, epoch = '', entries }: Publication, answer: unknown, time: Timeline): Promise<string[]> {
    const away = field(answer, 'away');
    const named = new Set(Array.isArray(away) ? away.map((each) => String(field(each, 'client_id'))) : []);
    // Of many it names some.
    if (Number(field(answer, 'away_count')) > named.size) return [];
    const topics = entries.flatMap((entry) => entry.topics);
    const lacking = (await this.#found({ do: 'lack', epoch, seq, topics })).filter((name) => !named.has(name));
    if (lacking.length === 0) return [];
    const text = `a wait for seq ${seq} was answered 200, and ${lacking.length} subscribers lack it, ${lacking[0]} for one`;
    time.say(`FAILURE ${text}`);
    return [`at ${(time.now() / 1000).toFixed(3)}: ${text}`];
  }

  /** Waits until each has the last update of its topics, and holds what it was told against the log; answers what is wrong, and how long it took. */
  async judgeEnd(journal: Journal, epoch: string, withinMs: number): Promise<{ failures: string[]; tookMs: number }> {
    const placed = journal.publications
      .flatMap((own): PlacedUpdate[] =>
        own.epoch === epoch && own.seq !== undefined
          ? [{ seq: own.seq, topics: own.entries.flatMap((entry) => entry.topics) }]
          : [],
      )
      .sort((a, b) => a.seq - b.seq);
    const lasts = new Map(placed.flatMap(({ seq, topics }) => topics.map((topic) => [topic, seq] as const)));
    const startMs = performance.now();
    for (const [topic, seq] of lasts) {
      const left = withinMs - (performance.now() - startMs);
      const have = async (): Promise<boolean> =>
        (await this.#found({ do: 'lack', epoch, seq, topics: [topic] })).length === 0;
      // Who still lacks it then is named by the judge.
      await until(have, { withinMs: Math.max(left, 1), what: '' }).catch(() => undefined);
    }
    const tookMs = performance.now() - startMs;
    return { failures: await this.#found({ do: 'judge', epoch, placed }), tookMs };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { child } of this.#crowds) await child[Symbol.asyncDispose]();
  }

  async #found(what: Order): Promise<string[]> {
    return (await this.#all(what)).flatMap(({ found }) => found);
  }

  #all(what: Order): Promise<Exclude<Report, Failed>[]> {
    return Promise.all(this.#crowds.map((crowd) => crowd.order(what)));
  }

  async #order(at: number, what: Order): Promise<void> {
    await this.#crowds[at]?.order(what);
  }

  #signal(at: number, signal: NodeJS.Signals): void {
    const pid = this.#crowds[at]?.child.pid;
    if (pid !== undefined) process.kill(pid, signal);
  }
}
