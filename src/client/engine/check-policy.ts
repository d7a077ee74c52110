import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { childEnv } from '../../lib/child-env.js';
import { jsonOrUndefined } from '../../lib/json-text.js';
import { regionsText } from './bundle-archive.js';
import { type EngineProblem, EngineRefusal, type PolicySet, type Region } from './engine.js';
import { opaError, opaProblems, problemsInText } from './opa-rest.js';
import type { Env } from './opa-version.js';

/** Compiles modules together with documents, without touching an engine. Throws {@link EngineRefusal}. */
export type PolicyCheck = (policy: PolicySet, regions: readonly Region[], signal: AbortSignal) => Promise<void>;

const checkOutput = z.object({
  errors: z.array(opaError),
});

/** A compile of thousands of modules takes seconds; beyond this something is wrong with the program. */
const TIMEOUT_MS = 120_000;

/**
 * A check by the OPA program: it loads all as a bundle and evaluates a constant. Unlike `opa check` this also finds
 * documents that collide with rules.
 */
export function opaCheck(execPath: string, env: Env, v0Compatible: boolean): PolicyCheck {
  return async ({ modules }, regions, signal) => {
    const dir = await mkdtemp(join(tmpdir(), 'policysync-check-'));
    try {
      for (const [path, rego] of modules) await put(dir, path, rego);
      await put(dir, 'data.json', regionsText(regions));
      const version = v0Compatible ? '--v0-compatible' : '--v1-compatible';
      const problems = await run(
        execPath,
        ['eval', version, '--format=json', '--bundle', dir, '1'],
        { dir, env },
        signal,
      );
      if (problems.length > 0) throw new EngineRefusal('the policy does not compile', problems);
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  };
}

async function put(dir: string, path: string, text: string): Promise<void> {
  const file = join(dir, ...path.split('/').filter((part) => part !== '..' && part !== ''));
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
}

function run(
  execPath: string,
  args: readonly string[],
  { dir, env }: { dir: string; env: Env },
  signal: AbortSignal,
): Promise<EngineProblem[]> {
  const options = { env: childEnv(env, 'opa'), signal, timeout: TIMEOUT_MS, maxBuffer: 16 * 1024 * 1024 };
  return new Promise((resolve, reject) => {
    execFile(execPath, args, options, (error, stdout) => {
      if (error === null) {
        resolve([]);
        return;
      }
      // Without the JSON report the program's own failure is passed on.
      const parsed = checkOutput.safeParse(jsonOrUndefined(stdout));
      if (!parsed.success || parsed.data.errors.length === 0) {
        reject(error);
        return;
      }
      const problems = parsed.data.errors.flatMap(({ message, location }) => {
        const text = message.replaceAll(`${dir}/`, '').replaceAll(dir, 'policy');
        // What cannot be parsed comes as one text for all files.
        if (location?.file === undefined) return problemsInText(text);
        return opaProblems([
          { message: text, location: { file: location.file.replace(`${dir}/`, ''), row: location.row } },
        ]);
      });
      resolve(problems);
    });
  });
}
