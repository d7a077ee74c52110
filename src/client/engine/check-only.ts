import type { GoHost } from '../../embedded/go/go-host.js';
import { GoProcess } from '../../embedded/go/go-process.js';
import { TimedGo } from '../../embedded/timed-go.js';
import type { EmbeddedPolicy, GoEngine } from '../../embedded/types.js';
import type { Region } from '../../embedded/vocabulary.js';
import { childEnv } from '../../lib/run/child-env.js';
import type { DocPath } from '../../wire/doc-path.js';
import { EmbeddedEngine } from './embedded/embedded-engine.js';
import { type RegoMode, RegoVersions } from './modules/rego-versions.js';

/**
 * Compiling thousands of modules takes seconds; after this time the compiler is considered hung.
 */
const TIMEOUT_MS = 120_000;

/** Policies that call `http.send` compile with it; nothing is evaluated. */
export const SENDS_NOTHING: GoHost = { fetch: () => Promise.reject(new Error('a check sends no requests')) };

/** Starts OPA's own code in a process of its own, for one check, which kills it. */
export async function startCheckGo(env: NodeJS.ProcessEnv, memoryLimitBytes?: number): Promise<TimedGo> {
  const go = await GoProcess.start({ env: childEnv(env, 'engine'), host: SENDS_NOTHING, memoryLimitBytes });
  return new TimedGo(go, { decisionMs: TIMEOUT_MS, workMs: TIMEOUT_MS, compileMs: TIMEOUT_MS });
}

const checksOnly = (): Promise<never> => Promise.reject(new Error('a check changes nothing'));

/** What {@link checkOnlyEngine} checks with. */
interface CheckOnlyOptions {
  readonly mode: RegoMode;
  readonly reserved: readonly DocPath[];
  /** Compiles; rejects with what is wrong. */
  readonly check: (policy: EmbeddedPolicy, regions: readonly Region[]) => Promise<void>;
}

/**
 * An engine that judges whole policies, each module as the version of Rego that a client decides
 * on, and holds none.
 */
export function checkOnlyEngine(
  go: Pick<GoEngine, 'parse'>,
  { mode, reserved, check }: CheckOnlyOptions,
): EmbeddedEngine {
  const versions = new RegoVersions(mode, {
    parse: async (texts, version) => {
      const modules = [...texts].map(([path, rego]) => ({ path, rego }));
      return new Set(await go.parse(modules, version));
    },
  });
  return new EmbeddedEngine(
    { check, activate: checksOnly, write: checksOnly, read: checksOnly },
    { reserved, versions },
  );
}
