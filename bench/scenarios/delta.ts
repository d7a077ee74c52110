import { Client } from 'undici';
import { type Measured, watch } from '../lib/figure.js';
import { modulePath, moduleText } from '../lib/modules.js';
import { largeRepository, serveLargeRepository } from '../lib/policy-repo.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { repository } from '../lib/stage.js';
import type { System } from '../lib/system.js';
import { bareGit } from '../raw/bare-git.js';

const FIRST = 'delta of one file, first';
const NEXT = 'delta of one file, next';
const COMMITS = { normal: 20, quick: 5 };
const NEXT_EACH = 20;

async function measure(bench: Bench, system: System): Promise<readonly Measured[]> {
  const { server, commit } = await serveLargeRepository(bench, system);
  const client = new Client(server.url, { bodyTimeout: 60_000, headersTimeout: 60_000 });
  bench.keep({ [Symbol.asyncDispose]: () => client.destroy() });
  const get = async (base: string, head: string): Promise<number> => {
    const startMs = performance.now();
    const { body } = await client.request({ method: 'GET', path: `/policy?path=.&base_hash=${base}` });
    const text = await body.text();
    const tookMs = performance.now() - startMs;
    if (!text.includes(`"hash":"${head}"`) || !text.includes(base)) throw new Error(`no delta: ${text.slice(0, 300)}`);
    return tookMs;
  };
  const firstMs: number[] = [];
  const nextMs: number[] = [];
  const used = watch({ server });
  const limitMs = performance.now() + bench.pick(40_000, 8_000);
  let base = await commit({});
  for (let at = 0; at < bench.pick(COMMITS.normal, COMMITS.quick) && performance.now() < limitMs; at++) {
    const head = await commit({ [modulePath(at)]: moduleText(at, 2) });
    firstMs.push(await get(base, head));
    for (let again = 0; again < NEXT_EACH && performance.now() < limitMs; again++) nextMs.push(await get(base, head));
    base = head;
  }
  return [
    { metric: FIRST, unit: 'ms', samples: firstMs, cost: used() },
    { metric: NEXT, unit: 'ms', samples: nextMs },
  ];
}

async function raw(bench: Bench): Promise<readonly Measured[]> {
  const repo = await repository(bench.dir, largeRepository(bench));
  const commits = [await repo.git('rev-parse', 'HEAD')];
  const count = bench.pick(COMMITS.normal, COMMITS.quick);
  for (let at = 0; at < count; at++) commits.push(await repo.commit({ [modulePath(at)]: moduleText(at, 2) }));
  const git = await bareGit(bench.dir, repo.url);
  const samples: number[] = [];
  for (const [at, commit] of commits.entries()) {
    const before = commits[at - 1];
    if (before === undefined) continue;
    const startMs = performance.now();
    await git.diff(before, commit);
    samples.push(performance.now() - startMs);
  }
  return [{ metric: FIRST, unit: 'ms', samples }];
}

export const deltaScenario: Scenario = {
  name: 'delta',
  about: 'The bundle from one commit to the next, which changes one of 5,000 modules (quick: of 1,000).',
  rawIs: 'git diff of the two commits',
  goals: [
    { metric: FIRST, statistic: 'median', of: { system: 'raw' }, atMost: 5, check: 10 },
    { metric: NEXT, statistic: 'median', of: 'number', atMost: 2, check: 10 },
  ],
  raw,
  measure,
};
