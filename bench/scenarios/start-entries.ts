import type { Measured } from '../lib/figure.js';
import { publisher } from '../lib/publish.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { folder } from '../lib/stage.js';
import { type Server, type System, startServer } from '../lib/system.js';

const RAN = 'peak memory of a server that takes entries';
const STARTED = 'peak memory of its start after a kill';
const ADDED = 'peak memory of its start beyond that of an empty server';
const CPU = 'processor time of its start';
const MANY = ', ten times the entries';
/** Of 200 bytes, at paths of their own. */
const ENTRIES = { normal: 100_000, quick: 20_000 };
const IN_ONE_UPDATE = 2000;

async function measure(bench: Bench, system: System): Promise<readonly Measured[]> {
  const total = bench.pick(ENTRIES.normal, ENTRIES.quick);
  const starts = bench.pick(10, 2);
  const few = await started(total / 10, 'few');
  const many = await started(total, 'many');
  return [...few, ...many.map((one) => ({ ...one, metric: one.metric + MANY }))];

  async function started(entries: number, name: string): Promise<readonly Measured[]> {
    const dir = await folder(bench.dir, name);
    const first = bench.keep(await startServer(system, { dir }));
    const emptyMb = first.usage().peakBytes / 1e6;
    await using own = publisher(first.url);
    for (let from = 0; from < entries; from += IN_ONE_UPDATE) {
      await own.publish(Array.from({ length: IN_ONE_UPDATE }, (_, at) => entry(from + at)));
    }
    const ranMb = first.usage().peakBytes / 1e6;
    await killed(first);
    const peaksMb: number[] = [];
    const cpuMs: number[] = [];
    for (let start = 0; start < starts; start++) {
      const server = bench.keep(await startServer(system, { dir }));
      const usage = server.usage();
      peaksMb.push(usage.peakBytes / 1e6);
      cpuMs.push(usage.cpuMs);
      await killed(server);
    }
    return [
      { metric: RAN, unit: 'MB', samples: [ranMb] },
      { metric: STARTED, unit: 'MB', samples: peaksMb },
      { metric: ADDED, unit: 'MB', samples: peaksMb.map((peakMb) => Math.max(1, peakMb - emptyMb)) },
      { metric: CPU, unit: 'ms', samples: cpuMs },
    ];
  }
}

async function killed(server: Server): Promise<void> {
  process.kill(server.pid, 'SIGKILL');
  await server.stop();
}

function entry(n: number): object {
  return { url: '', topics: ['policy_data'], dst_path: `/users/d${n}`, data: { n, pad: 'x'.repeat(180) } };
}

export const startEntriesScenario: Scenario = {
  name: 'start-entries',
  about:
    'A server with 10,000 and with 100,000 live entries of 200 bytes (quick: a fifth) is killed and starts again, ten times: its memory, and its processor time.',
  rawIs: 'nothing: a start is held against the server that was killed, and against a tenth of the entries',
  goals: [
    {
      metric: STARTED + MANY,
      statistic: 'median',
      of: { system: 'self', metric: RAN + MANY },
      atMost: 1.2,
      check: 1.2,
    },
    { metric: ADDED + MANY, statistic: 'median', of: { system: 'self', metric: ADDED }, atMost: 11, check: 11 },
    { metric: CPU + MANY, statistic: 'median', of: { system: 'self', metric: CPU }, atMost: 11, check: 11 },
  ],
  withoutPeer: true,
  raw: async () => [],
  measure,
};
