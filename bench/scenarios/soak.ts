import { freePort } from '../../test/support/opa.js';
import { type Decider, startDecider } from '../lib/decider.js';
import type { Measured } from '../lib/figure.js';
import { type Publisher, publisher } from '../lib/publish.js';
import { RBAC_DECISION, RBAC_REPO } from '../lib/rbac.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { folder, repository } from '../lib/stage.js';
import { type System, startServer } from '../lib/system.js';
import { until } from '../lib/wait.js';

const BEFORE = 'memory after a fifth of it';
const AFTER = 'memory after 100,000 patches and 1,000,000 decisions';
const PATCHES = 100_000;
const DECISIONS = 1_000_000;
const ROUNDS = 10;
/** Documents that one update changes. */
const EACH = 100;
const USERS = 2_000;
const WITHIN_MS = 60_000;

/** Documents of users, each time with other roles, and every tenth with other members. */
function entriesOf(round: number, update: number): object[] {
  return Array.from({ length: EACH }, (_, at) => {
    const user = (update * EACH + at * 7) % USERS;
    const roles = Array.from({ length: (user + round) % 5 }, (_role, role) => `r${(user + round + role) % 50}`);
    const more = at % 10 === 0 ? { note: 'x'.repeat((user * 3 + round) % 400), nested: { round, roles } } : {};
    return { url: '', topics: ['policy_data'], dst_path: `/users/u${user}`, data: { roles, ...more } };
  });
}

async function round(
  at: number,
  count: { patches: number; decisions: number },
  { decider, updates, engineUrl }: { decider: Decider; updates: Publisher; engineUrl: string },
): Promise<void> {
  for (let update = 0; update < count.patches / EACH; update++) await updates.publish(entriesOf(at, update));
  await updates.publish([{ url: '', topics: ['policy_data'], dst_path: '/soak/round', data: { at } }]);
  await until('the updates are in the engine', WITHIN_MS, async () => {
    const response = await fetch(`${engineUrl}/v1/data/soak/round/at`);
    return (await response.text()).includes(`:${at}}`);
  });
  await decider.decide({ inFlight: 16, decisions: count.decisions });
}

async function measure(bench: Bench, system: System): Promise<readonly Measured[]> {
  if (system.name !== 'embedded') return [];
  const { dir } = bench;
  const repo = await repository(dir, RBAC_REPO);
  const server = bench.keep(await startServer(system, { dir: await folder(dir, 'server'), repoUrl: repo.url }));
  const engineUrl = `http://127.0.0.1:${await freePort()}`;
  const decider = bench.keep(
    await startDecider({
      what: 'client',
      settings: {
        ...{ SYNC_ENGINE: 'embedded', SYNC_SERVER_URL: server.url, SYNC_POLICY_STORE_URL: engineUrl },
        ...{ SYNC_CLIENT_API_SERVER_PORT: '0', SYNC_EMBEDDED_ENGINE_ENTRYPOINTS: RBAC_DECISION },
      },
    }),
  );
  const updates = bench.keep(publisher(server.url));
  const scale = bench.pick(1, 0.05) / ROUNDS;
  const count = { patches: PATCHES * scale, decisions: DECISIONS * scale };
  const memory: number[] = [];
  for (let at = 1; at <= ROUNDS; at++) {
    await round(at, count, { decider, updates, engineUrl });
    memory.push((await decider.memoryBytes()) / 1e6);
  }
  return [
    { metric: BEFORE, unit: 'MB', samples: memory.slice(1, 3) },
    { metric: AFTER, unit: 'MB', samples: memory.slice(-2) },
  ];
}

export const soakScenario: Scenario = {
  name: 'soak',
  about:
    'Memory of a process with the embedded engine while documents of 2,000 users are replaced 100,000 times and it decides 1,000,000 times (quick: a twentieth).',
  rawIs: 'not measured',
  withoutPeer: true,
  goals: [
    {
      ...{ for: 'embedded', metric: AFTER, statistic: 'median', of: { system: 'self', metric: BEFORE } },
      ...{ atMost: 1.05, check: 1.3 },
    },
  ],
  raw: async () => [],
  measure,
};
