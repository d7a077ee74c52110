import { Subscriber } from './subscriber.js';
import { nowMs, type Order, type Report } from './subscribers.js';

/** The process of `subscribers.ts`. */

/** Connections that are opened at the same time. */
const OPENING_AT_ONCE = 20;

const all: Subscriber[] = [];
/** When each subscriber got which publication, by its mark. */
const arrivals = new Map<number, number[]>();
let onArrival: ((mark: number) => void) | undefined;

function arrived(mark: number): void {
  const times = arrivals.get(mark) ?? [];
  arrivals.set(mark, times);
  times.push(nowMs());
  onArrival?.(mark);
}

async function connect({
  serverUrl,
  count,
  topic,
  answer,
  ours,
}: Extract<Order, { do: 'connect' }>): Promise<number[]> {
  const times: number[] = [];
  let started = 0;
  const opener = async (): Promise<void> => {
    while (started < count) {
      const clientId = ours === undefined ? undefined : `${ours}-${started}`;
      started++;
      const startMs = nowMs();
      all.push(await Subscriber.open(serverUrl, { topic, answer, clientId, onMark: arrived }));
      times.push(nowMs() - startMs);
    }
  };
  await Promise.all(Array.from({ length: OPENING_AT_ONCE }, opener));
  return times;
}

async function round({ mark, expected, withinMs }: Extract<Order, { do: 'round' }>): Promise<readonly number[]> {
  const count = (): number => arrivals.get(mark)?.length ?? 0;
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, withinMs);
    onArrival = (which) => {
      if (which !== mark || count() < expected) return;
      clearTimeout(timer);
      resolve();
    };
    if (count() >= expected) onArrival(mark);
  });
  onArrival = undefined;
  const times = arrivals.get(mark) ?? [];
  arrivals.clear();
  return times;
}

async function carryOut(order: Order): Promise<readonly number[]> {
  switch (order.do) {
    case 'connect':
      return await connect(order);
    case 'stall':
      for (const subscriber of all.slice(-order.count)) subscriber.stall();
      return [];
    case 'round':
      return await round(order);
  }
}

process.on('message', (order: Order) => {
  carryOut(order).then(
    (timesMs) => process.send?.({ timesMs } satisfies Report),
    (error: unknown) => process.send?.({ failed: String(error) } satisfies Report),
  );
});
