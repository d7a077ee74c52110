import { readFile } from 'node:fs/promises';
import { loadPolicy } from '@open-policy-agent/opa-wasm';
import { CLIENT_SETTINGS, createClient, loadSettings, silentLogger } from '../../src/index.js';
import type { DeciderKind, Order, Report } from './decider.js';
import { RBAC_DECISION, RBAC_INPUTS } from './rbac.js';
import { until } from './wait.js';

/** The process of `decider.ts`. */

/** One decision; the value tells whether it is yes. */
type Decide = (input: object) => boolean | Promise<boolean>;

/** Longest wait for policy and data. */
const READY_MS = 60_000;
/** Decisions between two looks at the clock. */
const BATCH = 64;

async function start(kind: DeciderKind): Promise<Decide> {
  if (kind.what === 'opa-wasm') {
    const policy = await loadPolicy(await readFile(kind.wasmFile));
    policy.setData(JSON.parse(await readFile(kind.dataFile, 'utf8')) as object);
    return (input) => (policy.evaluate(input, RBAC_DECISION) as [{ result: boolean }])[0].result;
  }
  const { values } = loadSettings(CLIENT_SETTINGS, { env: kind.settings });
  const client = createClient(values, { log: silentLogger(), env: process.env });
  const { url } = await client.start();
  await until('the client is ready', READY_MS, async () => (await fetch(`${url}/ready`)).status === 200);
  return async (input) => (await client.decide(RBAC_DECISION, input)).allowed;
}

async function count(
  decide: Decide,
  { inFlight, slices, sliceMs }: Extract<Order, { do: 'count' }>,
): Promise<number[]> {
  const perSecond: number[] = [];
  let asked = 0;
  let yes = 0;
  for (let slice = 0; slice < slices; slice++) {
    const startMs = performance.now();
    const before = asked;
    const ask = async (): Promise<void> => {
      while (performance.now() - startMs < sliceMs) {
        for (let at = 0; at < BATCH; at++) {
          const answer = decide(RBAC_INPUTS[asked++ % RBAC_INPUTS.length] ?? {});
          if (answer instanceof Promise ? await answer : answer) yes++;
        }
      }
    };
    await Promise.all(Array.from({ length: inFlight }, ask));
    perSecond.push(((asked - before) * 1000) / (performance.now() - startMs));
  }
  if (yes === 0 || yes === asked) throw new Error(`${yes} of ${asked} decisions are yes: the policy does not decide`);
  return perSecond;
}

async function askAll(decide: Decide, { inFlight, decisions }: { inFlight: number; decisions: number }): Promise<void> {
  let left = decisions;
  const ask = async (): Promise<void> => {
    while (left-- > 0) await decide(RBAC_INPUTS[left % RBAC_INPUTS.length] ?? {});
  };
  await Promise.all(Array.from({ length: inFlight }, ask));
}

let decide: Decide | undefined;

async function carryOut(order: Order): Promise<readonly number[]> {
  if (order.do === 'start') {
    decide = await start(order);
    return [];
  }
  if (decide === undefined) throw new Error('it was not started');
  if (order.do === 'memory') return [process.memoryUsage().rss];
  if (order.do === 'count') return await count(decide, order);
  await askAll(decide, order);
  return [];
}

process.on('message', (order: Order) => {
  const report = (what: Report): void => void process.send?.(what);
  carryOut(order).then(
    (values) => report({ values }),
    (error: unknown) => report({ failed: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
  );
});
