import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Measured } from '../lib/figure.js';
import { modules } from '../lib/modules.js';
import type { Program } from '../lib/program.js';
import { urlEntry } from '../lib/publish.js';
import type { Bench, Goal, Scenario } from '../lib/scenario.js';
import { startSource } from '../lib/source.js';
import { folder, repository } from '../lib/stage.js';
import { type System, startServer } from '../lib/system.js';
import { pause } from '../lib/wait.js';
import { bareBundle } from '../raw/bare-bundle.js';
import { launchBareOpa } from '../raw/bare-opa.js';

const COUNTS = [200, 1_000];
/** Longest that is waited for one start. OPAL puts one module after the other, and OPA compiles all of them each time. */
const LIMIT_MS = 45_000;
const LOOK_EVERY_MS = 5;

const metricOf = (count: number): string => `client start until ${count.toLocaleString('en')} modules are in OPA`;

/** Time from a start until OPA answers by the last module; the limit when it has not by then. */
async function untilLoaded(program: Program, engineUrl: string, count: number): Promise<number> {
  const last = count - 1;
  const url = `${engineUrl}/v1/data/services/s${last % 20}/m${last}/version`;
  for (;;) {
    const tookMs = performance.now() - program.startedMs;
    if (tookMs > LIMIT_MS) return LIMIT_MS;
    program.mustRun();
    const answer = await fetch(url).then(
      (response) => response.text(),
      () => '',
    ); // it does not listen yet
    if (answer.includes(':1}')) return performance.now() - program.startedMs;
    await pause(LOOK_EVERY_MS);
  }
}

async function each(
  bench: Bench,
  start: (
    files: Record<string, string>,
    name: string,
  ) => Promise<() => Promise<{ program: Program; engineUrl: string }>>,
): Promise<readonly Measured[]> {
  const measured: Measured[] = [];
  for (const count of COUNTS) {
    const again = await start(modules(count), `modules-${count}`);
    const samples: number[] = [];
    const limitMs = performance.now() + bench.pick(20_000, 4_000);
    for (let at = 0; at < bench.pick(5, 2) && (at === 0 || performance.now() < limitMs); at++) {
      const { program, engineUrl } = await again();
      await using _ = program;
      samples.push(await untilLoaded(program, engineUrl, count));
    }
    measured.push({ metric: metricOf(count), unit: 'ms', samples });
  }
  return measured;
}

async function measure(bench: Bench, system: System): Promise<readonly Measured[]> {
  const source = bench.keep(await startSource(bench.dir));
  return await each(bench, async (files, name) => {
    const dir = await folder(bench.dir, name);
    const repo = await repository(dir, files);
    const server = bench.keep(
      await startServer(system, {
        dir: await folder(dir, 'server'),
        repoUrl: repo.url,
        entries: [urlEntry(source.document(0, 100), '/base')],
      }),
    );
    let at = 0;
    return async () => {
      const client = await system.launchClient({ dir: await folder(dir, `client-${at++}`), serverUrl: server.url });
      return { program: client, engineUrl: client.engineUrl };
    };
  });
}

async function raw(bench: Bench): Promise<readonly Measured[]> {
  return await each(bench, async (files, name) => {
    const dir = await folder(bench.dir, name);
    const bundle = join(dir, 'bundle.tar.gz');
    await writeFile(bundle, await bareBundle(files));
    return async () => {
      const program = await launchBareOpa(dir, ['--bundle', bundle]);
      return { program, engineUrl: program.url };
    };
  });
}

export const clientStartModulesScenario: Scenario = {
  name: 'client-start-modules',
  about: 'Start of a client until OPA answers by 200 and by 1,000 modules; 45,000 ms: not by then.',
  rawIs: 'a bare OPA that is started with a bundle of the modules',
  goals: COUNTS.flatMap((count): Goal[] => {
    const figure = { metric: metricOf(count), statistic: 'median' } as const;
    return [
      { ...figure, for: 'inline', of: { system: 'raw' }, atMost: 1, plus: 700, check: 3 },
      { ...figure, for: 'embedded', of: { system: 'policysync' }, atMost: 2, check: 5 },
    ];
  }),
  raw,
  measure,
};
