import { execFile } from 'node:child_process';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import * as z from 'zod';
import { type EngineProblem, EngineRefusal, type Region } from '../../../embedded/vocabulary.js';
import { SyncError } from '../../../lib/errors.js';
import { jsonOrUndefined } from '../../../lib/json/json-text.js';
import { childEnv } from '../../../lib/run/child-env.js';
import { temporaryFolder } from '../../temporary-folder.js';
import type { PolicySet } from '../engine.js';
import type { Env } from '../get-opa/opa-version.js';
import { regionsText } from '../modules/bundle-archive.js';
import { manifestVersions, type RegoParser, type RegoVersions, type V0Modules } from '../modules/rego-versions.js';
import { opaError, opaProblems, problemsInText } from './opa-rest.js';

/**
 * Compiles modules together with documents, without touching an engine. Throws
 * {@link EngineRefusal}.
 */
export type PolicyCheck = (policy: PolicySet, regions: readonly Region[], signal: AbortSignal) => Promise<void>;

const checkOutput = z.object({
  errors: z.array(opaError.extend({ code: z.string().optional() })),
});

/** Compiling thousands of modules takes seconds; after this time the program is considered hung. */
const TIMEOUT_MS = 120_000;

/**
 * Creates a check by the OPA program, which loads everything as a bundle and evaluates a constant.
 * Unlike `opa check`, this also finds documents that collide with rules.
 */
export function opaCheck(program: () => Promise<OpaProgram>, versions: RegoVersions): PolicyCheck {
  return (policy, regions, signal) =>
    versions.settle(policy, async (v0) => judge(await program(), policy, v0, regions, signal), signal, false);
}

/** The program to run and its environment. */
export interface OpaProgram {
  readonly execPath: string;
  readonly env: Env;
  /**
   * Capabilities file, which lists the built-in functions that policies may call; undefined: all.
   */
  readonly capabilities?: string | undefined;
}

async function judge(
  program: OpaProgram,
  { modules }: PolicySet,
  v0: V0Modules,
  regions: readonly Region[],
  signal: AbortSignal,
): Promise<void> {
  await inFolder(async (dir) => {
    for (const [path, rego] of modules) await put(dir, path, rego);
    await put(dir, 'data.json', regionsText(regions));
    await put(dir, '.manifest', JSON.stringify(manifestVersions(modules, v0)));
    const { capabilities } = program;
    const limits = capabilities === undefined ? [] : [`--capabilities=${capabilities}`];
    const problems = await run(program, ['eval', ...limits, '--format=json', '--bundle', dir, '1'], dir, signal);
    if (problems.length > 0) throw new EngineRefusal('the policy does not compile', problems.map(withRemedy(program)));
  });
}

/** OPA reports a disabled function as undefined: adds a hint to the message. */
function withRemedy({ capabilities }: OpaProgram): (problem: EngineProblem) => EngineProblem {
  return (problem) => {
    if (capabilities === undefined || !problem.message.startsWith('undefined function ')) return problem;
    return { ...problem, message: `${problem.message} (see SYNC_INLINE_ENGINE_BUILTINS_OFF)` };
  };
}

/**
 * Creates a parser by the OPA program, which reports the modules that cannot be parsed as a version
 * of Rego, all at once.
 */
export function opaParser(program: () => Promise<OpaProgram>): RegoParser {
  return async (modules, version, signal) => {
    if (modules.size === 0) return new Set();
    const paths = [...modules.keys()];
    const { execPath, env } = await program();
    return await inFolder(async (dir) => {
      for (const [index, path] of paths.entries()) await put(dir, `${index}.rego`, modules.get(path) ?? '');
      const args = ['check', `--v${version}-compatible`, '--max-errors=0', '--format=json', dir];
      const problems = await run({ execPath, env }, args, dir, signal);
      const unread = problems.filter(({ kind }) => kind === 'rego_parse_error');
      return new Set(unread.flatMap(({ file = '' }) => paths[Number.parseInt(file, 10)] ?? []));
    });
  };
}

async function inFolder<T>(work: (dir: string) => Promise<T>): Promise<T> {
  const dir = await temporaryFolder('policysync-check-');
  try {
    return await work(dir);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

async function put(dir: string, path: string, text: string): Promise<void> {
  const file = join(dir, ...path.split('/').filter((part) => part !== '..' && part !== ''));
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await writeFile(file, text, { mode: 0o600 });
}

/** A problem with OPA's code. */
type Complaint = EngineProblem & { readonly kind?: string | undefined };

function run(
  { execPath, env }: OpaProgram,
  args: readonly string[],
  dir: string,
  signal: AbortSignal,
): Promise<Complaint[]> {
  const options = { env: childEnv(env, 'opa'), signal, timeout: TIMEOUT_MS, maxBuffer: 16 * 1024 * 1024 };
  return new Promise((resolve, reject) => {
    execFile(execPath, args, options, (error, stdout, stderr) => {
      if (error === null) {
        resolve([]);
        return;
      }
      // `opa eval` reports on standard output, `opa check` on standard error. Without a JSON
      // report, reject with the error of the program.
      const parsed = checkOutput.safeParse(jsonOrUndefined(stdout === '' ? stderr : stdout));
      if (!parsed.success || parsed.data.errors.length === 0) {
        reject(error);
        return;
      }
      const problems = parsed.data.errors.flatMap(({ message, code, location }): Complaint[] => {
        const text = message.replaceAll(`${dir}/`, '').replaceAll(dir, 'policy');
        // Parse errors are one text for all files.
        if (location?.file === undefined) return problemsInText(text);
        const place = { file: location.file.replace(`${dir}/`, ''), row: location.row };
        return opaProblems([{ message: text, location: place }]).map((problem) => ({ ...problem, kind: code }));
      });
      resolve(problems);
    });
  });
}

const exec = promisify(execFile);

const capabilities = z.looseObject({ builtins: z.array(z.looseObject({ name: z.string() })) });

/** Timeout of `opa capabilities`. */
const LIST_TIMEOUT_MS = 10_000;

/** A capabilities file, which lists the built-in functions that policies may call. */
export interface Capabilities {
  /**
   * Returns the file, created on the first call. Rejects with `config_invalid` for a name that OPA
   * does not know.
   */
  file(program: OpaProgram): Promise<string>;
  /** Removes the file. */
  close(): Promise<void>;
}

/**
 * The capabilities of OPA without these built-in functions, as a file for its option
 * `--capabilities`.
 */
export function capabilitiesWithout(names: readonly string[]): Capabilities {
  let made: Promise<string> | undefined;
  const make = async ({ execPath, env }: OpaProgram): Promise<string> => {
    const options = { env: childEnv(env, 'opa'), timeout: LIST_TIMEOUT_MS, maxBuffer: 16 * 1024 * 1024 };
    const { stdout } = await exec(execPath, ['capabilities', '--current'], options);
    const all = capabilities.parse(jsonOrUndefined(stdout));
    const unknown = names.filter((name) => !all.builtins.some((builtin) => builtin.name === name));
    if (unknown.length > 0) {
      throw new SyncError(
        'config_invalid',
        `SYNC_INLINE_ENGINE_BUILTINS_OFF names ${unknown.join(', ')}: this OPA has no such built-in function`,
      );
    }
    const builtins = all.builtins.filter(({ name }) => !names.includes(name));
    const dir = await temporaryFolder('policysync-capabilities-');
    const file = join(dir, 'capabilities.json');
    await writeFile(file, JSON.stringify({ ...all, builtins }), { mode: 0o600 });
    return file;
  };
  return {
    file: (program) => {
      made ??= make(program);
      return made;
    },
    close: async () => {
      const file = await made?.catch(() => undefined); // the caller of `file` reports the failure
      if (file !== undefined) await rm(join(file, '..'), { recursive: true, force: true });
    },
  };
}
