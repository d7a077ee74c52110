import { regionsText } from './bundle-archive.js';
import { type EngineProblem, EngineRefusal } from './engine.js';
import type { PolicyCheck } from './opa-program.js';
import type { Env } from './opa-version.js';
import type { RegoMode } from './rego-versions.js';

/**
 * A check by the compiler of this package, in a process that ends with it. The engine may know built-in functions that the compiler
 * does not know: those it leaves to the engine.
 */
export function compilerCheck(mode: RegoMode, env: Env): PolicyCheck {
  return async (policy, regions, signal) => {
    // Other clients start without its code.
    const { checkOnlyEngine, startCheckGo } = await import('./check-only.js');
    const go = await startCheckGo(env);
    const engine = checkOnlyEngine(go, {
      mode,
      reserved: [],
      check: async (embedded, documents) => void (await go.check(embedded, regionsText(documents))),
    });
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
