import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import type { EngineProblem } from './engine.js';
import type { PolicyCheck } from './external-opa.js';
import { opaProblems } from './opa-rest.js';

const checkOutput = z.object({
  errors: z.array(
    z.object({ message: z.string(), location: z.object({ file: z.string(), row: z.number() }).partial().nullish() }),
  ),
});

/** A compile of thousands of modules takes seconds; beyond this something is wrong with the program. */
const TIMEOUT_MS = 60_000;

/** Compiles modules with `opa check`, in a folder of their own that is removed again. */
export function opaCheck(execPath: string, v0Compatible: boolean): PolicyCheck {
  return async (modules, signal) => {
    const dir = await mkdtemp(join(tmpdir(), 'policysync-check-'));
    try {
      for (const [path, rego] of modules) {
        const file = join(dir, ...path.split('/').filter((part) => part !== '..' && part !== ''));
        await mkdir(dirname(file), { recursive: true });
        await writeFile(file, rego);
      }
      return await run(
        execPath,
        ['check', '--format=json', v0Compatible ? '--v0-compatible' : '--v1-compatible', dir],
        dir,
        signal,
      );
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  };
}

function run(execPath: string, args: readonly string[], dir: string, signal: AbortSignal): Promise<EngineProblem[]> {
  return new Promise((resolve, reject) => {
    execFile(execPath, args, { signal, timeout: TIMEOUT_MS, maxBuffer: 16 * 1024 * 1024 }, (error, stdout, stderr) => {
      if (error === null) {
        resolve([]);
        return;
      }
      const parsed = checkOutput.safeParse(tryJson(stderr) ?? tryJson(stdout));
      if (!parsed.success || parsed.data.errors.length === 0) {
        reject(error);
        return;
      }
      const errors = parsed.data.errors.map((problem) => ({
        message: problem.message,
        location: { file: problem.location?.file?.replace(`${dir}/`, ''), row: problem.location?.row },
      }));
      resolve(opaProblems(errors));
    });
  });
}

function tryJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // Not the JSON report: the other stream may have it.
  }
}
