import { gzipSync } from 'node:zlib';
import { type Measured, watch } from '../lib/figure.js';
import { load } from '../lib/load.js';
import { modulePath, moduleText } from '../lib/modules.js';
import { largeRepository, serveLargeRepository } from '../lib/policy-repo.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { repository } from '../lib/stage.js';
import type { Server, System } from '../lib/system.js';
import { startBareFile } from '../raw/bare-file.js';
import { bareGit } from '../raw/bare-git.js';

const FIRST = 'complete bundle, first';
const FIRST_GZIP = 'complete bundle, first, compressed';
const NEXT = 'complete bundle, next';
const NEXT_GZIP = 'complete bundle, next, compressed';
const SAME = 'complete bundle, nothing new (304)';
const SAME_CPU = 'server CPU per 304';

const PATH = '/policy?path=.';
const GZIP = { 'accept-encoding': 'gzip' };

/** Answers per second of what is ready. */
async function rate(
  bench: Bench,
  metric: string,
  server: Server,
  options: { path: string; headers?: Record<string, string>; connections: number; status: number },
): Promise<readonly Measured[]> {
  const slices = { slices: bench.pick(4, 2), sliceMs: bench.pick(1_000, 500) };
  const used = watch({ server });
  const { perSecond, answers } = await load({ ...options, ...slices, url: server.url + options.path });
  const cost = used();
  const perAnswerUs = ((cost.server?.cpuMs ?? 0) * 1000) / Math.max(answers, 1);
  return [
    { metric, unit: '1/s', samples: perSecond, cost },
    ...(options.status === 304 ? [{ metric: SAME_CPU, unit: 'us' as const, samples: [perAnswerUs] }] : []),
  ];
}

const next = { connections: 2, status: 200 };
const same = { connections: 8, status: 304 };

async function measure(bench: Bench, system: System): Promise<readonly Measured[]> {
  const { server, commit } = await serveLargeRepository(bench, system);
  const firstMs: number[] = [];
  const firstGzipMs: number[] = [];
  const used = watch({ server });
  let etag = '';
  const get = async (headers: Record<string, string>): Promise<number> => {
    const startMs = performance.now();
    const response = await fetch(`${server.url}${PATH}`, { headers });
    const bytes = (await response.arrayBuffer()).byteLength;
    const tookMs = performance.now() - startMs;
    if (response.status !== 200 || bytes < 1_000_000) throw new Error(`answered ${response.status}, ${bytes} bytes`);
    etag = response.headers.get('etag') ?? '';
    return tookMs;
  };
  for (let at = 0; at < bench.pick(5, 2); at++) {
    await commit({ [modulePath(at)]: moduleText(at, 2) });
    firstMs.push(await get({ 'accept-encoding': 'identity' }));
    await commit({ [modulePath(at)]: moduleText(at, 3) });
    firstGzipMs.push(await get(GZIP));
  }
  const cost = used();
  await get({ 'accept-encoding': 'identity' });
  const found: Measured[] = [
    { metric: FIRST, unit: 'ms', samples: firstMs, cost },
    { metric: FIRST_GZIP, unit: 'ms', samples: firstGzipMs },
    ...(await rate(bench, NEXT, server, { path: PATH, ...next })),
  ];
  // OPAL compresses nothing, and knows no tags.
  if (etag === '') return found;
  const headers = { 'if-none-match': etag };
  return [
    ...found,
    ...(await rate(bench, NEXT_GZIP, server, { path: PATH, headers: GZIP, ...next })),
    ...(await rate(bench, SAME, server, { path: PATH, headers, ...same })),
  ];
}

async function raw(bench: Bench): Promise<readonly Measured[]> {
  const files = largeRepository(bench);
  const repo = await repository(bench.dir, files);
  const git = await bareGit(bench.dir, repo.url);
  const firstMs: number[] = [];
  await git.readTree();
  for (let at = 0; at < bench.pick(5, 3); at++) {
    const startMs = performance.now();
    await git.readTree();
    firstMs.push(performance.now() - startMs);
  }
  const bytes = bundleOf(files);
  const plain = bench.keep(await startBareFile(bench.dir, bytes));
  const gzip = bench.keep(await startBareFile(bench.dir, gzipSync(bytes)));
  return [
    { metric: FIRST, unit: 'ms', samples: firstMs },
    ...(await rate(bench, NEXT, plain, { path: '/', ...next })),
    ...(await rate(bench, NEXT_GZIP, gzip, { path: '/', headers: GZIP, ...next })),
    ...(await rate(bench, SAME, plain, { path: '/', headers: { 'if-none-match': '"file"' }, ...same })),
  ];
}

/** The bytes of a bundle of these files, but for details. */
function bundleOf(files: Readonly<Record<string, string>>): Buffer {
  const all = Object.entries(files);
  return Buffer.from(
    JSON.stringify({
      manifest: all.map(([path]) => path),
      hash: '0'.repeat(40),
      data_modules: all.filter(([path]) => path.endsWith('.json')).map(([path, data]) => ({ path, data })),
      policy_modules: all
        .filter(([path]) => path.endsWith('.rego'))
        .map(([path, rego]) => ({ path, package_name: path.replaceAll('/', '.'), rego })),
      deleted_files: null,
    }),
  );
}

export const bundleScenario: Scenario = {
  name: 'bundle',
  about:
    'The complete bundle of 5,000 modules and 1,000 data files (quick: a fifth): after a commit, again, and again with its tag.',
  rawIs: 'first: git reads the whole tree; next: a bare server answers the same bytes from memory',
  goals: [
    { metric: FIRST, statistic: 'median', of: { system: 'raw' }, atMost: 3, check: 8 },
    { metric: NEXT, statistic: 'median', of: { system: 'raw' }, atLeast: 0.7, check: 0.3 },
    { metric: NEXT_GZIP, statistic: 'median', of: { system: 'raw' }, atLeast: 0.7, check: 0.2 },
    { metric: SAME, statistic: 'median', of: 'number', atLeast: 3_000 },
    { metric: SAME_CPU, statistic: 'median', of: 'number', atMost: 1_000_000 / 3_000, check: 1_000 },
  ],
  raw,
  measure,
};
