import { execFile } from 'node:child_process';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import * as z from 'zod';
import type { TextFile } from '../../../checker/messages.js';
import { manifestVersions } from '../../../client/engine/modules/rego-versions.js';
import { temporaryFolder } from '../../../client/temporary-folder.js';
import { SyncError } from '../../../lib/errors.js';
import { jsonOrUndefined } from '../../../lib/json/json-text.js';
import { childEnv } from '../../../lib/run/child-env.js';

/** Tests of thousands of rules take a while; after this time the program is considered hung. */
const TIMEOUT_MS = 600_000;
const OUTPUT_LIMIT_BYTES = 64 * 1024 * 1024;

const testResult = z.object({
  location: z.object({ file: z.string(), row: z.number() }).optional(),
  package: z.string(),
  name: z.string(),
  fail: z.boolean().optional(),
  skip: z.boolean().optional(),
  error: z.unknown().optional(),
});

/** One test of a policy. */
export interface TestResult {
  /** `data.app.rbac_test.test_allow` */
  readonly name: string;
  readonly outcome: 'passed' | 'failed' | 'skipped';
  /** Why it has no result; undefined for a test that is simply not true. */
  readonly error: string | undefined;
  readonly file: string | undefined;
  readonly line: number | undefined;
}

/** What `opa test` is run with. */
export interface TestInput {
  readonly modules: readonly TextFile[];
  readonly v0: ReadonlySet<string>;
  /** The static data as one document. */
  readonly document: string;
}

/**
 * Runs `opa test` on a bundle, in a folder of its own. Rejects with `engine_refused` if OPA does
 * not run the tests.
 */
export async function runTests(execPath: string, input: TestInput, env: NodeJS.ProcessEnv): Promise<TestResult[]> {
  const dir = await temporaryFolder('policysync-test-');
  try {
    for (const { path, text } of input.modules) await put(dir, path, text);
    await put(dir, 'data.json', input.document);
    const modules = new Map(input.modules.map(({ path, text }) => [path, text]));
    await put(dir, '.manifest', JSON.stringify(manifestVersions(modules, input.v0)));
    return parsed(await run(execPath, ['test', '--format=json', '--bundle', dir], env), dir);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** A commit that was not made by git may have `..` in its paths. */
async function put(dir: string, path: string, text: string): Promise<void> {
  const file = join(dir, path);
  if (!file.startsWith(join(dir, '/'))) {
    throw new SyncError('engine_refused', `opa test: ${JSON.stringify(path)} is a path outside the repository`);
  }
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await writeFile(file, text, { mode: 0o600 });
}

/** The exit code says what the results say, too. */
function run(
  execPath: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<{ readonly stdout: string; readonly stderr: string; readonly error: Error | null }> {
  const options = { env: childEnv(env, 'opa'), timeout: TIMEOUT_MS, maxBuffer: OUTPUT_LIMIT_BYTES };
  return new Promise((resolve) => {
    execFile(execPath, args, options, (error, stdout, stderr) => resolve({ stdout, stderr, error }));
  });
}

function parsed({ stdout, stderr, error }: Awaited<ReturnType<typeof run>>, dir: string): TestResult[] {
  if (stdout.trim() === '' && error === null) return [];
  const results = z.array(testResult).nullable().safeParse(jsonOrUndefined(stdout));
  if (!results.success) {
    const said = (stderr.trim() || stdout.trim() || (error?.message ?? '')).replaceAll(`${dir}/`, '');
    throw new SyncError('engine_refused', `opa test: ${said}`, { cause: error });
  }
  return (results.data ?? []).map(({ location, package: name, name: test, fail, skip, error: problem }) => ({
    name: `${name}.${test}`,
    outcome: skip === true ? 'skipped' : fail === true || problem != null ? 'failed' : 'passed',
    error: problem == null ? undefined : errorOf(problem).replaceAll(`${dir}/`, ''),
    file: location?.file.replace(`${dir}/`, '').replace(/^\//, ''),
    line: location?.row,
  }));
}

function errorOf(problem: unknown): string {
  const known = z.object({ message: z.string() }).safeParse(problem);
  return known.success ? known.data.message : JSON.stringify(problem);
}
