import { Pool } from 'undici';
import { type Followed, Subscriber } from './subscriber.js';
import type { Order, Report } from './subscribers.js';

/** The process of `subscribers.ts`. */

/** All say what they have, where that is news, in so many parts: time for each of them, so that many leave the server room. */
const REPORT_MS_EACH = 4;
const LEAST_REPORT_MS = 250;
const REPORTING_PARTS = 16;
const LOOK_MS = 1000;
/** Time for the first connections of all. */
const START_MS = 2000;
/** What subscribers ask of an instance at the same time, and how long for: it may be frozen. */
const ASKS = { connections: 16, headersTimeout: 15_000, bodyTimeout: 15_000 };
/** Of many that fail the same way a few are named. */
const MOST_NAMED = 5;

let all: readonly (readonly [name: string, subscriber: Subscriber])[] = [];

function start({ name, count, urls, topics }: Extract<Order, { do: 'start' }>): void {
  const instances = urls.map((url): Followed => ({ url, asks: new Pool(url, ASKS) }));
  let next = 0;
  const followed = (): Followed => {
    const found = instances[next++ % instances.length];
    if (found === undefined) throw new Error('there is no instance to follow');
    return found;
  };
  all = Array.from({ length: count }, (_, at) => {
    const id = `${name}-${at}`;
    return [id, new Subscriber(id, topics[at % topics.length] ?? [], followed)] as const;
  });
  for (const [, subscriber] of all) subscriber.start(START_MS);
  let part = 0;
  setInterval(
    () => {
      part = (part + 1) % REPORTING_PARTS;
      for (let at = part; at < all.length; at += REPORTING_PARTS) all[at]?.[1].report();
    },
    Math.max(LEAST_REPORT_MS, count * REPORT_MS_EACH) / REPORTING_PARTS,
  );
  setInterval(() => {
    for (const [, subscriber] of all) subscriber.look(performance.now());
  }, LOOK_MS);
}

/** Who follows one of the topics and has not all up to a place of the log. */
function lack({ epoch, seq, topics }: Extract<Order, { do: 'lack' }>): string[] {
  return all
    .filter(([, { told }]) => told.concerns(topics) && !(told.epoch === epoch && told.through >= seq))
    .map(([name]) => name);
}

function judge({ epoch, placed }: Extract<Order, { do: 'judge' }>): string[] {
  const found = all.flatMap(([name, { told, wrong }]) =>
    [...wrong, ...told.judge(epoch, placed)].map((what) => `${name}: ${what}`),
  );
  const more = found.length - MOST_NAMED;
  return more > 0 ? [...found.slice(0, MOST_NAMED), `and ${more} more of subscribers`] : found;
}

function sum(of: (subscriber: Subscriber) => number): number {
  return all.reduce((total, [, subscriber]) => total + of(subscriber), 0);
}

function carryOut(order: Order): Report {
  switch (order.do) {
    case 'start':
      start(order);
      return { found: [] };
    case 'cut':
      for (const [, subscriber] of all) subscriber.cut();
      return { found: [] };
    case 'lack':
      return { found: lack(order) };
    case 'judge':
      return { found: judge(order) };
    case 'counts':
      return { found: [], counts: { connections: sum((own) => own.connections), folds: sum((own) => own.foldsRead) } };
  }
}

process.on('message', (order: Order) => {
  try {
    process.send?.(carryOut(order));
  } catch (error) {
    process.send?.({ failed: String(error) } satisfies Report);
  }
});
