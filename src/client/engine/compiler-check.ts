import { childEnv } from '../../lib/child-env.js';
import { regionsText } from './bundle-archive.js';
import { type EngineProblem, EngineRefusal } from './engine.js';
import type { PolicyCheck } from './opa-program.js';
import type { Env } from './opa-version.js';
import { type RegoMode, RegoVersions } from './rego-versions.js';

/** Compiling thousands of modules takes seconds; after this time the compiler is considered hung. */
const TIMEOUT_MS = 120_000;

/**
 * A check by the compiler of this package, in a process that ends with it. The engine may know built-in functions that the compiler
 * does not know: those it leaves to the engine.
 */
export function compilerCheck(mode: RegoMode, env: Env): PolicyCheck {
  return async (policy, regions, signal) => {
    // Other clients start without its code.
    const [{ EmbeddedEngine }, { GoProcess }, { TimedGo }] = await Promise.all([
      import('./embedded-engine.js'),
      import('../../embedded/go/go-process.js'),
      import('../../embedded/timed-go.js'),
    ]);
    const host = { fetch: () => Promise.reject(new Error('a check sends no requests')) };
    const started = await GoProcess.start({ env: childEnv(env, 'engine'), host });
    const go = new TimedGo(started, { decisionMs: TIMEOUT_MS, workMs: TIMEOUT_MS });
    const versions = new RegoVersions(mode, {
      parse: async (texts, version) =>
        new Set(
          await go.parse(
            [...texts].map(([path, rego]) => ({ path, rego })),
            version,
          ),
        ),
    });
    const checksOnly = (): Promise<never> => Promise.reject(new Error('a check changes nothing'));
    const engine = new EmbeddedEngine(
      {
        check: async (embedded, documents) => void (await go.check(embedded, regionsText(documents))),
        ...{ activate: checksOnly, write: checksOnly, read: checksOnly },
      },
      { reserved: [], versions },
    );
    try {
      await engine.check(policy, regions, signal);
    } catch (error) {
      if (!(error instanceof EngineRefusal)) throw error;
      if (error.problems.length === 0 || !error.problems.every(isOwnFunction)) throw error;
    } finally {
      await go.kill('the check has ended');
    }
  };
}

/** A function of no package: the engine may have it. */
function isOwnFunction({ message }: EngineProblem): boolean {
  return /^(?:rego_type_error: )?undefined function (?!data\.)/.test(message);
}
