import { type EngineProblem, EngineRefusal } from '../../../embedded/vocabulary.js';
import { errorText, failureFields } from '../../../lib/errors.js';
import type { ClientSettings } from '../../options.js';
import { acquireOpa } from '../get-opa/acquire-opa.js';
import type { Env } from '../get-opa/opa-version.js';
import { regionsText } from '../modules/bundle-archive.js';
import { type RegoMode, RegoVersions, regoMode } from '../modules/rego-versions.js';
import { ExternalOpa } from './external-opa.js';
import { type OpaProgram, opaCheck, opaParser, type PolicyCheck } from './opa-program.js';
import type { OpaRest } from './opa-rest.js';
import type { CreateEngineDeps, RunningOpa } from './running-engine.js';

/** After this many timeouts, a request without a response has taken effect or never will. */
const DOUBT_FACTOR = 2;

/** An OPA that others run. */
export function externalEngine(
  settings: ClientSettings,
  rest: OpaRest,
  { log, env, signal, reserved }: CreateEngineDeps,
): RunningOpa {
  const finding = findCheck(settings, { log, env, signal });
  finding.catch(() => undefined); // `check` reports the failure
  const compiler = compilerCheck(regoMode(settings), env);
  return {
    kind: 'external',
    engine: new ExternalOpa({
      rest,
      check: async (policy, regions, checkSignal) => (await finding)?.(policy, regions, checkSignal),
      judge: async (policy, regions, checkSignal) => {
        if ((await finding) !== undefined) return;
        try {
          await compiler(policy, regions, checkSignal);
        } catch (error) {
          checkSignal.throwIfAborted();
          if (error instanceof EngineRefusal) throw error;
          log.warn(failureFields(error), 'the policy cannot be compiled here: the engine alone judges it');
        }
      },
      log,
      reserved,
      doubtMs: DOUBT_FACTOR * settings.engineTimeoutMs,
    }),
    access: 'external',
    version: () => undefined,
    rego: () => undefined,
    getting: () => undefined,
    listeners: [],
    run: async () => undefined,
    pid: () => undefined,
    close: async () => undefined,
  };
}

/**
 * Uses an OPA program that is already on this machine to check policies before they are sent to the
 * external engine.
 */
async function findCheck(
  settings: ClientSettings,
  { log, env, signal }: Pick<CreateEngineDeps, 'log' | 'env' | 'signal'>,
): Promise<PolicyCheck | undefined> {
  try {
    const opa = await acquireOpa({ execPath: settings.inlineEngineExecPath, env, allowDownload: false, signal });
    const program = async (): Promise<OpaProgram> => ({ execPath: opa.path, env });
    return opaCheck(program, new RegoVersions(regoMode(settings), { parse: opaParser(program) }));
  } catch (error) {
    signal.throwIfAborted();
    log.info(
      { reason: errorText(error) },
      'no OPA program on this machine: the compiler of this package checks policies where the engine cannot',
    );
    return undefined;
  }
}

/**
 * A check by the compiler of this package, in a process that ends with it. The engine may know
 * built-in functions that the compiler does not know: those it leaves to the engine.
 */
export function compilerCheck(mode: RegoMode, env: Env): PolicyCheck {
  return async (policy, regions, signal) => {
    // Other clients start without its code.
    const { checkOnlyEngine, startCheckGo } = await import('../check-only.js');
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
