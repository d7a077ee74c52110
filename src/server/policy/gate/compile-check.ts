import { createHash } from 'node:crypto';
import { CHECKER, Checker, type CheckerLimits } from '../../../checker/checker-process.js';
import type { CheckJob, Module, TextFile } from '../../../checker/messages.js';
import { SyncError } from '../../../lib/errors.js';
import { regoPackage } from '../../../wire/rego-package.js';
import { directoryOf, isWithin, requestedDirectories } from '../bundle/directories.js';
import type { BundleFile } from '../bundle/snapshot.js';
import type { GitObjects } from '../source/git-objects.js';
import type { GateCheck } from './gate.js';

/** As `policysync check`: a busy machine may take a minute for a thousand modules. */
const TIMEOUT_MS = 120_000;
/** Of the process, and for each byte of what it compiles. The program alone takes 200 MiB. */
export const CHECK_MEMORY_BYTES = 768 * 1024 * 1024;
const MEMORY_FACTOR = 20;

/**
 * The package and the documents below it are kept for clients (`system.authz`): data there counts,
 * whatever the packages are.
 */
const KEPT_FOR_CLIENTS = 'system';

export interface CompileCheckOptions {
  /** SYNC_ENGINE_V0_COMPAT. */
  readonly rego: CheckJob['rego'];
  /** SYNC_POLICY_GATE_DIRS: sets of folders that clients take. */
  readonly sets: readonly (readonly string[])[];
}

export interface CompileCheckDeps {
  readonly objects: Pick<GitObjects, 'blobs'>;
  readonly env: NodeJS.ProcessEnv;
  /** Default: a process of its own. */
  readonly checker?: Pick<Checker, 'prepare' | 'check' | 'close'>;
}

/**
 * Compiles the modules of a commit with its static data, as clients do (promise 3). A commit that
 * changes nothing of what was compiled last takes no process.
 */
export function createCompileCheck(options: CompileCheckOptions, deps: CompileCheckDeps): GateCheck {
  const { rego } = options;
  const { objects, env, checker = new Checker({ env }) } = deps;
  const sets = options.sets.map(requestedDirectories);
  /** What compiled last. */
  let compiled: string | undefined;

  async function textsOf(files: readonly BundleFile[]): Promise<Module[]> {
    const contents = await objects.blobs(files.map(({ blob }) => blob));
    return files.map(({ path, blob, declared }) => ({
      path,
      text: textOf(contents.get(blob)),
      ...(declared !== undefined && { declared }),
    }));
  }

  return {
    identity: `compile as declared ${JSON.stringify([CHECKER, rego, sets])}`,
    check: async (commit, signal) => {
      const taken = commit.files.filter(({ path }) => sets.flat().some((folder) => isWithin(path, folder)));
      const policy = taken.filter(({ kind }) => kind === 'policy');
      const modules = await textsOf(policy);
      const data = besidePackages(
        taken.filter(({ kind }) => kind === 'data'),
        modules,
      );
      const key = keyOf([...policy, ...data]);
      if (key === compiled || policy.length + data.length === 0) return [];
      const job = { rego, sets, modules, data: await textsOf(data) };
      const answer = await checker.check(job, limitsOf(job), signal);
      if (answer.kind === 'failed') throw gateFailed(commit.hash, answer.reason);
      if (answer.problems.length === 0) compiled = key;
      return answer.problems;
    },
    prepare: () => checker.prepare(),
    close: () => checker.close(),
  };
}

/**
 * The data files that decide with these modules whether OPA takes them: those that share their
 * first folder with a package, and those of the root. All others may have any content. Pure.
 */
export function besidePackages<F extends Pick<BundleFile, 'path'>>(
  data: readonly F[],
  modules: readonly TextFile[],
): readonly F[] {
  const tops = new Set([KEPT_FOR_CLIENTS]);
  for (const { text } of modules) {
    const top = regoPackage(text)?.[0];
    if (top === undefined) return data; // OPA may read what we cannot
    tops.add(top);
  }
  return data.filter(({ path }) => {
    const folder = directoryOf(path);
    return folder === '.' ? modules.length > 0 : tops.has(folder.split('/', 1)[0] ?? '');
  });
}

/** Paths, contents and declared versions, in load order. */
function keyOf(files: readonly BundleFile[]): string {
  const hash = createHash('sha256');
  for (const { path, blob, declared = '' } of files) hash.update(`${path}\0${blob}\0${declared}\0`);
  return hash.digest('base64');
}

function limitsOf({ modules, data }: Pick<CheckJob, 'modules' | 'data'>): CheckerLimits {
  const chars = [...modules, ...data].reduce((total, { text }) => total + text.length, 0);
  return { timeoutMs: TIMEOUT_MS, memoryBytes: CHECK_MEMORY_BYTES + MEMORY_FACTOR * chars };
}

/** As buildBundle does: a byte order mark stays. */
function textOf(bytes: Buffer | undefined): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
}

function gateFailed(hash: string, reason: string): SyncError {
  const text = `commit ${hash} was not compiled: ${reason}`;
  return new SyncError('policy_gate_failed', text, { retryable: true });
}
