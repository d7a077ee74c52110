import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import * as z from 'zod';
import { childEnv } from '../../lib/child-env.js';
import { SyncError } from '../../lib/errors.js';
import { jsonOrUndefined } from '../../lib/json-text.js';
import type { Env } from './opa-version.js';

const exec = promisify(execFile);

const capabilities = z.looseObject({ builtins: z.array(z.looseObject({ name: z.string() })) });

/** Longest time that the program may take to list what it can do. */
const TIMEOUT_MS = 10_000;

/** A file that says what policies may call. */
export interface Capabilities {
  /** Made at the first call. Rejects with `config_invalid` for a name that OPA does not know. */
  file(program: { execPath: string; env: Env }): Promise<string>;
  /** Removes it. */
  close(): Promise<void>;
}

/** What this OPA can do without the built-in functions of these names, as a file for its options `--capabilities`. */
export function capabilitiesWithout(names: readonly string[]): Capabilities {
  let made: Promise<string> | undefined;
  const make = async ({ execPath, env }: { execPath: string; env: Env }): Promise<string> => {
    const options = { env: childEnv(env, 'opa'), timeout: TIMEOUT_MS, maxBuffer: 16 * 1024 * 1024 };
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
    const dir = await mkdtemp(join(tmpdir(), 'policysync-capabilities-'));
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
      const file = await made?.catch(() => undefined); // whoever asked for it has the failure
      if (file !== undefined) await rm(join(file, '..'), { recursive: true, force: true });
    },
  };
}
