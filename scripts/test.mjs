// Runs the tests: compiles, makes sure that there is an OPA, runs the compiled test files with Node's own test runner.
//
//   npm test                      everything but interop
//   npm test -- flows/opa         only test files whose path contains one of the words
//   npm run test:long             the same with SYNC_TEST_LONG=1: the long walks in full
//   npm run test:interop          against the Python programs
//   npm test -- --with-interop    everything, in one run
//   npm test -- --without=a,b     all files but those whose path contains one of the words
//   npm test -- --node=24         on another Node: a version of scripts/lib/node-versions.mjs, or a path
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { compile } from './lib/compile.mjs';
import { nodeProgram } from './lib/node-versions.mjs';
import { Fatal, main, run } from './lib/run.mjs';
import { groupTests, needOpa, testFiles } from './lib/test-files.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const BUILD = join(ROOT, 'build');
/** Test files at a time: they take all that the cores have; one more fills what the others wait. Memory has a bound. */
const CONCURRENCY = Math.min(availableParallelism() + 1, 8);
/** One hung test must not hold up CI for ever; the long suite walks whole histories. */
const TIMEOUT_MS = { normal: 20 * 60_000, long: 6 * 3_600_000 };

/** A run of so many files makes what it needs as it comes to it, and names each file in its output. */
const FEW_FILES = 50;

const FLAGS = ['--long', '--interop', '--with-interop', '--without=<words>', '--node=<version or path>'];
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
    suites: { main: !onlyInterop, interop: onlyInterop || flags.includes('--with-interop') },
    filters: args.filter((arg) => !arg.startsWith('-')),
  };
}

function words(text) {
  return text.split(',').filter((word) => word !== '');
}

/**
 * The OPA for the tests, `{path}`: SYNC_TEST_OPA, else what the product's own search gives. `{missing}` says why there is none, where
 * neither is configured.
 */
async function opa() {
  const engine = join(BUILD, 'src', 'client', 'engine');
  const { acquireOpa } = await import(pathToFileURL(join(engine, 'acquire-opa.js')));
  const { progressPrinter } = await import(pathToFileURL(join(engine, 'acquire-progress.js')));
  const given = process.env.SYNC_TEST_OPA;
  try {
    const found = await acquireOpa({
      ...(given ? { execPath: given } : {}),
      env: process.env,
      allowDownload: true,
      onProgress: progressPrinter(process.stdout),
    });
    return { path: found.path };
  } catch (error) {
    if (error.code === 'engine_not_found') return { missing: error.message };
    throw new Fatal(`The tests need OPA: ${error.message}`, { cause: error });
  }
}

/**
 * Has the backbone servers made before the tests run, beside the engine: built amid them, the first run would take the
 * processor away from tests that measure time. Where one cannot be had its tests are skipped and say why.
 */
async function backboneServers() {
  const { actionlintProgram, natsProgram, nginxProgram, promtoolProgram, redisProgram } = await import(
    pathToFileURL(join(BUILD, 'test', 'support', 'server-programs.js'))
  );
  const { chromiumProgram } = await import(pathToFileURL(join(BUILD, 'test', 'support', 'chromium.js')));
  const { composeProgram, hadolintProgram, helmProgram, kubernetesSchemas } = await import(
    pathToFileURL(join(BUILD, 'test', 'support', 'deploy-programs.js'))
  );
  const programs = {
    ...{ redis: redisProgram, nats: natsProgram, nginx: nginxProgram },
    ...{ promtool: promtoolProgram, actionlint: actionlintProgram },
    ...{ hadolint: hadolintProgram, compose: composeProgram, helm: helmProgram },
    ...{ 'Kubernetes schemas': kubernetesSchemas, Chromium: chromiumProgram },
  };
  await Promise.all(
    Object.entries(programs).map(async ([name, get]) => {
      const found = await get();
      console.log(`${name}: ${'missing' in found ? found.missing : `using ${found.path}`}`);
    }),
  );
}

async function versionOf(node) {
  return (await promisify(execFile)(node, ['--version'])).stdout.trim();
}

async function runFiles(files, { long, node }, opaPath) {
  const dir = mkdtempSync(join(tmpdir(), 'policysync-test-run-'));
  const totals = join(dir, 'totals');
  try {
    const code = await run(
      node ?? process.execPath,
      [
        '--test',
        // What this Node deprecates is warned of, before it is gone.
        '--pending-deprecation',
        `--test-concurrency=${CONCURRENCY}`,
        `--test-timeout=${long ? TIMEOUT_MS.long : TIMEOUT_MS.normal}`,
        '--test-reporter=spec',
        '--test-reporter-destination=stdout',
        `--test-reporter=${pathToFileURL(join(ROOT, 'scripts', 'lib', 'summary-reporter.mjs'))}`,
        `--test-reporter-destination=${totals}`,
        ...files.map((file) => join(BUILD, file)),
      ],
      { cwd: ROOT, env: { ...process.env, SYNC_TEST_OPA: opaPath ?? '', ...(long ? { SYNC_TEST_LONG: '1' } : {}) } },
    );
    // After failures the reporter prints them again below its totals; the totals are what a reader looks for last.
    if (code !== 0 && existsSync(totals)) {
      const lines = readFileSync(totals, 'utf8').trimEnd().split('\n');
      console.log(`\n${lines.map((line) => `ℹ ${line}`).join('\n')}`);
    }
    return code;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

await main(async () => {
  const asked = options(process.argv.slice(2));
  const chosen = { ...asked, node: asked.node === undefined ? undefined : await nodeProgram(asked.node) };
  await compile(ROOT, 'build', { installed: true });
  const files = testFiles(BUILD, chosen);
  if (files.length === 0) {
    throw new Fatal(
      chosen.filters.length > 0
        ? `No test file has "${chosen.filters.join('" or "')}" in its path; give a part of a path such as "flows/opa".`
        : 'There are no test files of this kind; look into test/.',
    );
  }
  const isLarge = files.length > FEW_FILES;
  const [{ path: opaPath, missing }] = await Promise.all([opa(), isLarge ? backboneServers() : undefined]);
  const skipped = missing === undefined ? [] : needOpa(BUILD, files);
  const left = files.filter((file) => !skipped.includes(file));
  const { node = process.execPath } = chosen;
  console.log(`running ${left.length} test files on ${node} (${await versionOf(node)}) ...`);
  const code = left.length === 0 ? 0 : await runFiles(isLarge ? groupTests(BUILD, left) : left, chosen, opaPath);
  if (skipped.length > 0) {
    console.log(
      `\nℹ ${skipped.length} test files were skipped, since they need OPA:\nℹ   ${skipped.join('\nℹ   ')}\n${missing}`,
    );
  }
  return code;
});
