// Runs the tests: compiles, makes sure that there is an OPA, runs the compiled test files with Node's own test runner.
//
//   npm test                      everything but interop
//   npm test -- flows/opa         only test files whose path contains one of the words
//   npm run test:long             the same with SYNC_TEST_LONG=1: the long walks in full
//   npm run test:interop          against the Python programs
//   npm test -- --with-interop    everything, in one run
//   npm test -- --without=a,b     all files but those whose path contains one of the words
//   npm test -- --write-plan      what the files took becomes test/plan.json, for a run without other work on two cores
//   npm test -- --node=22         on another Node: a version of scripts/lib/node-versions.mjs, a path, or "own" for this one
//
// Without --node the newest long-term Node runs the tests, so that they are the same everywhere; where it cannot be had, this one does.
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { compile } from './lib/compile.mjs';
import { installPackage } from './lib/install-package.mjs';
import { NEWEST, nodeProgram } from './lib/node-versions.mjs';
import { Fatal, main, run } from './lib/run.mjs';
import { callersOf, planOf, testFiles } from './lib/test-files.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const BUILD = join(ROOT, 'build');
/** How a large run is arranged: what its longer files take, and which need a process of their own. */
const PLAN_FILE = join(ROOT, 'test', 'plan.json');
const PLAN = JSON.parse(readFileSync(PLAN_FILE, 'utf8'));
/** A file that takes longer has a process of its own, and its time in the plan. */
const LIGHT_SECONDS = 15;
/** How fast the last large run was. */
const PACE = join(BUILD, 'test-pace.json');
/** Processes at a time: they take all that the cores have; four more fill what the others wait. Memory has a bound. */
const CONCURRENCY = Math.min(availableParallelism() + 4, 12);
/** What test files call that need an OPA program. */
const NEED_OPA = { support: 'opa', functions: ['testOpa', 'startOpa'] };
/** What test files call that need the package as it ships. */
const NEED_PACKAGE = { support: 'installed-package', functions: ['installedPackage'] };
/** One hung test must not hold up CI for ever; the long suite walks whole histories. */
const TIMEOUT_MS = { normal: 20 * 60_000, long: 6 * 3_600_000 };

/** A run of so many files makes what it needs as it comes to it, and names each file in its output. */
const FEW_FILES = 50;

/**
 * What makes the programs of the tests cheaper, and changes nothing that they do: the many processes share what V8 compiled, and those
 * of Go (hundreds of OPAs that live for seconds) collect garbage less often.
 */
const SPARING = { NODE_COMPILE_CACHE: join(BUILD, 'compile-cache'), GOGC: '400' };

const FLAGS = [
  '--long',
  '--interop',
  '--with-interop',
  '--write-plan',
  '--without=<words>',
  '--node=<version, path or own>',
];
const NODE_FLAG = '--node=';
const WITHOUT_FLAG = '--without=';

function options(args) {
  const flags = args.filter((arg) => arg.startsWith('-'));
  const unknown = flags.find(
    (flag) => !FLAGS.includes(flag) && ![NODE_FLAG, WITHOUT_FLAG].some((start) => flag.startsWith(start)),
  );
  if (unknown !== undefined)
    throw new Fatal(`Unknown flag ${unknown}; there are ${FLAGS.join(', ')}, and words that select files.`);
  const onlyInterop = flags.includes('--interop');
  return {
    node: flags.find((flag) => flag.startsWith(NODE_FLAG))?.slice(NODE_FLAG.length),
    without: flags
      .filter((flag) => flag.startsWith(WITHOUT_FLAG))
      .flatMap((flag) => words(flag.slice(WITHOUT_FLAG.length))),
    long: flags.includes('--long'),
    writesPlan: flags.includes('--write-plan'),
    suites: { main: !onlyInterop, interop: onlyInterop || flags.includes('--with-interop') },
    filters: args.filter((arg) => !arg.startsWith('-')),
  };
}

function words(text) {
  return text.split(',').filter((word) => word !== '');
}

/**
 * The OPA for the tests, `{path}`: SYNC_TEST_OPA, else what the product finds or downloads, else a build with Go. `{missing}` says why
 * there is none, where neither is configured.
 */
async function opa() {
  const { opaProgram } = await import(pathToFileURL(join(BUILD, 'test', 'support', 'opa-program.js')));
  const given = process.env.SYNC_TEST_OPA;
  try {
    const { path } = await opaProgram({ ...(given ? { execPath: given } : {}), stream: process.stdout });
    return { path };
  } catch (error) {
    if (error.code === 'engine_not_found') return { missing: error.message };
    throw new Fatal(`The tests need OPA: ${error.message}`, { cause: error });
  }
}

/** Programs that tests start, by the function of test/support that finds or makes each, and how long the making takes on two cores. */
const PROGRAMS = [
  { name: 'Redis', support: 'server-programs', function: 'redisProgram', takes: 'a Debian package, seconds' },
  { name: 'nginx', support: 'server-programs', function: 'nginxProgram', takes: 'a Debian package, seconds' },
  { name: 'NATS', support: 'server-programs', function: 'natsProgram', takes: 'built with Go, a minute' },
  {
    name: 'Chromium',
    support: 'chromium',
    function: 'chromiumProgram',
    takes: 'Debian packages of 100 MB, half a minute',
  },
  ...['promtool', 'actionlint'].map((name) => ({ name, support: 'server-programs', function: `${name}Program` })),
  ...['hadolint', 'compose', 'helm'].map((name) => ({ name, support: 'deploy-programs', function: `${name}Program` })),
  { name: 'Kubernetes schemas', support: 'deploy-programs', function: 'kubernetesSchemas' },
];

/**
 * Has the programs made that tests start, while tests run that need none of them. Answers the test files that have to wait.
 */
async function programsBeside(files) {
  const late = new Set();
  for (const { name, support, function: find, takes = 'minutes' } of PROGRAMS) {
    const callers = callersOf(BUILD, files, { support, functions: [find] });
    if (callers.length === 0) continue;
    const module = await import(pathToFileURL(join(BUILD, 'test', 'support', `${support}.js`)));
    const found = module[find]();
    if (await isThere(found)) continue;
    console.log(`${name}: made beside the tests (${takes}); those that need it come last`);
    for (const file of callers) late.add(file);
    // What it says is said again by the tests that need it, as a failure or as the reason of a skip.
    found.catch(() => undefined);
  }
  return [...late];
}

/** Whether a program is found without being made: looking for one takes milliseconds. */
async function isThere(found) {
  const soon = new Promise((resolve) => setTimeout(resolve, 500, false));
  return Promise.race([
    found.then(
      () => true,
      () => true,
    ),
    soon,
  ]);
}

/** The Node that runs the tests. */
async function testedNode(wanted) {
  if (wanted === 'own') return process.execPath;
  if (wanted !== undefined) return nodeProgram(wanted);
  if (process.versions.node.startsWith(`${NEWEST}.`)) return process.execPath;
  try {
    return await nodeProgram(NEWEST);
  } catch (error) {
    if (!(error instanceof Fatal)) throw error;
    console.log(`Node ${NEWEST} cannot be had, so the tests run on this one: ${error.message}`);
    return process.execPath;
  }
}

async function versionOf(node) {
  return (await promisify(execFile)(node, ['--version'])).stdout.trim();
}

/** Runs files, and answers the exit code, and what each file took. `plan`: how a large run is arranged; undefined for a few files, each with all that it says. */
async function runFiles(files, { long, node }, opaPath, plan) {
  const dir = mkdtempSync(join(tmpdir(), 'policysync-test-run-'));
  const [given, results] = [join(dir, 'given.json'), join(dir, 'results.json')];
  const paths = (plan ?? files.map((file) => ({ file }))).map(({ file }) => join(BUILD, file));
  const seconds = plan && Object.fromEntries(plan.map(({ file, seconds: of }) => [join(BUILD, file), of]));
  const timeoutMs = long ? TIMEOUT_MS.long : TIMEOUT_MS.normal;
  writeFileSync(
    given,
    JSON.stringify({ files: paths, concurrency: CONCURRENCY, timeoutMs, build: BUILD, seconds, results }),
  );
  try {
    // What this Node deprecates is warned of, before it is gone.
    const args = ['--pending-deprecation', join(ROOT, 'scripts', 'lib', 'run-tests.mjs'), given];
    const env = { ...SPARING, ...process.env, SYNC_TEST_OPA: opaPath ?? '', ...(long ? { SYNC_TEST_LONG: '1' } : {}) };
    const code = await run(node, args, { cwd: ROOT, env });
    return { code, took: existsSync(results) ? JSON.parse(readFileSync(results, 'utf8')) : {} };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Says what runs, on which Node, and how long it may take: by the last such run here, else by the one that test/plan.json has. */
async function announce(files, node, plan) {
  const on = `on Node ${(await versionOf(node)).slice(1)}${node === process.execPath ? '' : ` (${node})`}`;
  if (plan === undefined) {
    console.log(`running ${files.length} test files ${on} ...`);
    return;
  }
  const expected = sumOf(plan) * (lastPace() ?? (PLAN.pace * 2) / Math.min(availableParallelism(), 8));
  const minutes = Math.max(1, Math.round(expected / 60));
  console.log(`running ${files.length} test files in ${plan.length} processes ${on}, about ${minutes} min ...`);
}

function writePlan(wallSeconds, took) {
  // A suite that several files share is told by the file that defines it.
  const isTestFile = (name) => existsSync(join(BUILD, `${name}.test.js`));
  const own = Object.entries(took).filter(([name, seconds]) => seconds >= LIGHT_SECONDS && isTestFile(name));
  const seconds = Object.fromEntries(own.map(([file, of]) => [file, Math.round(of)]).sort());
  const plan = { ...PLAN, seconds };
  const expected = sumOf(planOf(BUILD, testFiles(BUILD, { suites: { main: true }, filters: [], without: [] }), plan));
  plan.pace = Math.round((wallSeconds / expected) * 100) / 100;
  writeFileSync(PLAN_FILE, `${JSON.stringify(plan, null, 2)}\n`);
}

const sumOf = (plan) => plan.reduce((sum, { seconds }) => sum + seconds, 0);

/** Seconds that the last large run here took for each second of its plan; undefined where there was none. */
function lastPace() {
  return existsSync(PACE) ? JSON.parse(readFileSync(PACE, 'utf8')).pace : undefined;
}

await main(async () => {
  const asked = options(process.argv.slice(2));
  const node = await testedNode(asked.node);
  const isAll = asked.filters.length === 0;
  await compile(ROOT, 'build', { installed: isAll });
  const files = testFiles(BUILD, asked);
  if (files.length === 0) {
    throw new Fatal(
      asked.filters.length > 0
        ? `No test file has "${asked.filters.join('" or "')}" in its path; give a part of a path such as "flows/opa".`
        : 'There are no test files of this kind; look into test/.',
    );
  }
  // Built, packed and installed it takes longer than most tests that do without.
  if (!isAll && callersOf(BUILD, files, NEED_PACKAGE).length > 0) await installPackage(ROOT, join(BUILD, 'installed'));
  const { path: opaPath, missing } = await opa();
  const skipped = missing === undefined ? [] : callersOf(BUILD, files, NEED_OPA);
  const left = files.filter((file) => !skipped.includes(file));
  const plan = left.length > FEW_FILES ? planOf(BUILD, left, PLAN, await programsBeside(left)) : undefined;
  await announce(left, node, plan);
  const startMs = performance.now();
  const { code, took } = left.length === 0 ? { code: 0 } : await runFiles(left, { ...asked, node }, opaPath, plan);
  if (plan !== undefined && code === 0) {
    const wallSeconds = (performance.now() - startMs) / 1000;
    writeFileSync(PACE, JSON.stringify({ pace: wallSeconds / sumOf(plan) }));
    if (asked.writesPlan) writePlan(wallSeconds, took);
  }
  if (skipped.length > 0) {
    console.log(
      `\nℹ ${skipped.length} test files were skipped, since they need OPA:\nℹ   ${skipped.join('\nℹ   ')}\n${missing}`,
    );
  }
  return code;
});
