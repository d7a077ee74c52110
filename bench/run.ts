import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, totalmem } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { BackboneKind } from '../test/support/backbone-servers.js';
import { testOpa } from '../test/support/opa.js';
import { repoRoot } from '../test/support/repo.js';
import { type Verdict, verdicts } from './lib/goals.js';
import { opal } from './lib/opal.js';
import { policySync } from './lib/policysync.js';
import { goalsText, tableOf } from './lib/report.js';
import { builtPrograms, builtRevision } from './lib/revision.js';
import { measureScenario } from './lib/runner.js';
import type { Scenario } from './lib/scenario.js';
import type { System } from './lib/system.js';
import { SCENARIOS } from './scenarios/index.js';

/** `npm run bench`: see README.md of this folder. */

const OPTIONS = {
  peer: { type: 'string', multiple: true },
  against: { type: 'string' },
  embedded: { type: 'boolean', default: false },
  quick: { type: 'boolean', default: false },
  turns: { type: 'string', default: '1' },
  check: { type: 'boolean', default: false },
  minutes: { type: 'string' },
  backbone: { type: 'string' },
  json: { type: 'string' },
  profile: { type: 'string' },
  list: { type: 'boolean', default: false },
} as const;

const BACKBONES: Readonly<Record<string, BackboneKind>> = { postgres: 'Postgres', redis: 'Redis', nats: 'NATS' };

async function main(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  if (values.list) {
    for (const { name, about } of SCENARIOS) console.log(`${name.padEnd(24)}${about}`);
    return 0;
  }
  const chosen = scenariosNamed(positionals);
  const opa = await testOpa();
  process.env.SYNC_TEST_OPA = opa;
  const systems = await systemsOf({ ...values, opa });
  const quick = values.quick || values.check;
  const turns = Number(values.turns);
  if (!Number.isInteger(turns) || turns < 1) throw new Error(`--turns ${values.turns}: it is a number, at least 1`);
  const minutes = values.minutes === undefined ? undefined : Number(values.minutes);
  if (minutes !== undefined && !(minutes > 0)) throw new Error(`--minutes ${values.minutes}: it is a number above 0`);
  const backbone = values.backbone === undefined ? undefined : BACKBONES[values.backbone];
  if (values.backbone !== undefined && backbone === undefined)
    throw new Error(`--backbone ${values.backbone}: there are ${Object.keys(BACKBONES).join(', ')}`);
  const json = lineWriter(values.json);
  json({ kind: 'run', at: new Date().toISOString(), quick, check: values.check, turns, ...machine(opa) });

  const all: Verdict[] = [];
  let failures = 0;
  for (const scenario of chosen) {
    const figures = await measureScenario(scenario, {
      quick,
      opa,
      systems,
      turns,
      minutes,
      backbone,
      onStart: (what) => console.error(`... ${what}`),
      onFailure: (what, error) => {
        failures++;
        console.error(`${what} failed:`, error);
      },
    });
    // OPAL is what we are held against; the goals are ours.
    const found = systems
      .filter(({ name }) => name !== 'opal')
      .flatMap(({ name }) => verdicts(scenario, name, figures, { isCheck: values.check }));
    for (const one of figures) json({ kind: 'figure', ...one });
    for (const one of found) json({ kind: 'goal', ...one });
    console.log(`${tableOf(scenario, figures)}\n${goalsText(found)}`);
    all.push(...found);
  }
  const missed = all.filter(({ isMet }) => !isMet);
  console.log(
    `\n${all.length - missed.length} of ${all.length} goals met${failures === 0 ? '' : `; ${failures} could not be measured`}`,
  );
  return failures > 0 || (values.check && missed.length > 0) ? 1 : 0;
}

function scenariosNamed(names: readonly string[]): readonly Scenario[] {
  const unknown = names.find((name) => !SCENARIOS.some((scenario) => scenario.name === name));
  if (unknown !== undefined)
    throw new Error(`there is no scenario ${unknown}; there are ${SCENARIOS.map(({ name }) => name).join(', ')}`);
  return names.length === 0 ? SCENARIOS : SCENARIOS.filter(({ name }) => names.includes(name));
}

async function systemsOf(options: {
  opa: string;
  peer?: string[] | undefined;
  against?: string | undefined;
  embedded: boolean;
  profile?: string | undefined;
}): Promise<System[]> {
  const { opa, peer = [], against, embedded, profile } = options;
  const compiled = join(import.meta.dirname, '..');
  // A profile tells packages and modules apart by their files, which the shipped form has no more.
  const ours =
    profile === undefined
      ? { cliDir: await builtPrograms(repoRoot(), join(compiled, 'programs')) }
      : { cliDir: join(compiled, 'src', 'cli'), profileDir: resolve(profile) };
  const systems = [policySync('policysync', { ...ours, opa })];
  if (embedded) systems.push(policySync('embedded', { ...ours, opa: undefined }));
  if (against !== undefined) {
    console.error(`building ${against} ...`);
    systems.push(policySync(against, { cliDir: await builtRevision(repoRoot(), against), opa }));
  }
  for (const name of peer) {
    if (name !== 'opal') throw new Error(`--peer ${name}: there is opal`);
    console.error('getting OPAL, a minute at the first time ...');
    systems.push(await opal({ opa }));
  }
  return systems;
}

/** What the figures depend on. */
function machine(opa: string): object {
  const version = /^Version: (.*)$/m.exec(execFileSync(opa, ['version'], { encoding: 'utf8' }))?.[1];
  const found = cpus();
  return {
    cpus: found.length,
    cpu: found[0]?.model,
    memory_bytes: totalmem(),
    load_before: loadavg()[0],
    node: process.version,
    opa: version,
    revision: execFileSync('git', ['-C', repoRoot(), 'describe', '--always', '--dirty'], { encoding: 'utf8' }).trim(),
  };
}

/** Writes JSON lines to a file, as soon as each is there; `-` is standard output. */
function lineWriter(file: string | undefined): (line: object) => void {
  if (file === undefined) return () => undefined;
  if (file === '-') return (line) => console.log(JSON.stringify(line));
  mkdirSync(join(resolve(file), '..'), { recursive: true });
  writeFileSync(file, '');
  return (line) => writeFileSync(file, `${JSON.stringify(line)}\n`, { flag: 'a' });
}

// Whatever was started ends with this process, also where that is interrupted.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

process.exit(
  await main(process.argv.slice(2)).catch((error: unknown) => {
    console.error(error instanceof Error ? error.message : error);
    return 1;
  }),
);
