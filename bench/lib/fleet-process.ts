import { silentLogger } from '../../src/lib/observe/log.js';
import { type EnginelessClient, enginelessFleet } from '../../test/support/engineless-client.js';
import type { Coming, FleetOrder, FleetReport } from './fleet.js';
import { nowMs } from './subscribers.js';
import { pause } from './wait.js';

/** The process of `fleet.ts`. */

const LOOK_EVERY_MS = 20;

let clients: readonly EnginelessClient[] = [];
/** `performance.now()` of this process, on the clock that all processes have. */
const offsetMs = nowMs() - performance.now();

async function start({ serverUrl, count }: Extract<FleetOrder, { do: 'start' }>): Promise<void> {
  const topics = Array.from({ length: count }, () => 'policy_data');
  const fleet = await enginelessFleet(serverUrl, topics, {
    env: { SYNC_RECONNECT_MAX: '5' },
    log: () => silentLogger(),
  });
  clients = fleet.clients;
}

function isCaughtUp(client: EnginelessClient, seq: number): boolean {
  const { data, catchUps } = client;
  return catchUps.length > 0 && (data.logPosition?.applied_through ?? -1) >= seq && data.pending.length === 0;
}

async function caughtUp({ seq, withinMs }: Extract<FleetOrder, { do: 'caught-up' }>): Promise<Coming[]> {
  const deadline = nowMs() + withinMs;
  const comings: Coming[] = [];
  for (let missing = clients; missing.length > 0; ) {
    const left: EnginelessClient[] = [];
    for (const client of missing) {
      if (isCaughtUp(client, seq)) comings.push(comingOf(client));
      else left.push(client);
    }
    missing = left;
    if (nowMs() > deadline) throw new Error(`${missing.length} of ${clients.length} have not caught up`);
    if (missing.length > 0) await pause(LOOK_EVERY_MS);
  }
  return comings;
}

function comingOf({ catchUps }: EnginelessClient): Coming {
  const last = catchUps.at(-1);
  if (last === undefined) throw new Error('it has not come');
  const connectedMs = last.sinceMs + offsetMs;
  const { spreadMs, waitedMs = 0 } = last;
  return { connectedMs, spreadMs, askedMs: connectedMs + waitedMs, caughtUpMs: nowMs() };
}

async function carryOut(order: FleetOrder): Promise<readonly Coming[]> {
  switch (order.do) {
    case 'start':
      await start(order);
      return [];
    case 'reset':
      for (const { catchUps } of clients) catchUps.length = 0;
      return [];
    case 'caught-up':
      return await caughtUp(order);
  }
}

process.on('message', (order: FleetOrder) => {
  carryOut(order).then(
    (comings) => process.send?.({ comings } satisfies FleetReport),
    (error: unknown) => process.send?.({ failed: String(error) } satisfies FleetReport),
  );
});
