import { SyncError } from '../../lib/errors.js';
import { aborted } from '../../lib/run/async.js';
import { assertNotOurs } from '../../lib/run/child-env.js';
import type { ClientSettings } from '../options.js';
import { openEngineAccess } from './opa/engine-access.js';
import { fixedAuth } from './opa/engine-auth.js';
import { externalEngine } from './opa/external-engine.js';
import { InlineEngine } from './opa/inline-engine.js';
import { listenAddress } from './opa/opa-args.js';
import { engineAccessKind, makeAuthz } from './opa/opa-authz.js';
import { OpaDecisions } from './opa/opa-decisions.js';
import { OpaRest } from './opa/opa-rest.js';
import type { CreateEngineDeps, RunningEngine } from './opa/running-engine.js';

/**
 * Creates the chosen engine. An inline one may still search for its OPA program: calls to the
 * engine wait for it.
 */
export async function createEngine(settings: ClientSettings, deps: CreateEngineDeps): Promise<RunningEngine> {
  assertNotOurs(settings.inlineEngineEnv, 'SYNC_INLINE_ENGINE_ENV');
  const { choice } = deps;
  const kind = engineAccessKind(settings, choice.kind);
  if (kind === 'open' && settings.inlineEngineBuiltinsOff.length > 0) {
    throw new SyncError(
      'config_invalid',
      'SYNC_INLINE_ENGINE_BUILTINS_OFF is of no use with an open engine: whoever reaches it can put policies there; leave SYNC_INLINE_ENGINE_OPEN, authentication and authorization unset',
    );
  }
  if (choice.kind === 'embedded') {
    // Other engines start without its code.
    const { RunningEmbedded } = await import('./embedded/running-embedded.js');
    return RunningEmbedded.create(settings, deps);
  }
  const access = await openEngineAccess(settings, { ...deps, kind: choice.kind });
  const authz = kind === 'token' ? makeAuthz(settings) : undefined;
  const auth = authz === undefined ? access.auth : fixedAuth(authz.token);
  const rest = new OpaRest({ url: settings.engineUrl, timeoutMs: settings.engineTimeoutMs, tls: access.tls, auth });
  if (kind === 'open') {
    deps.log.warn(
      { address: listenAddress({ engineUrl: settings.engineUrl, config: settings.inlineEngineConfig ?? {} }) },
      'the inline engine is open: whoever reaches it can replace policy and data; see SYNC_INLINE_ENGINE_OPEN',
    );
  }
  const close = async (): Promise<void> => {
    await rest.close();
    await access.close();
  };
  try {
    const opa =
      choice.kind === 'external'
        ? externalEngine(settings, rest, deps)
        : await InlineEngine.create(
            settings,
            { rest, tls: access.tls, authz, access: kind, program: choice.opa },
            deps,
          );
    const decisions = new OpaDecisions({
      url: settings.engineUrl,
      timeoutMs: deps.decisionTimeoutMs ?? settings.engineTimeoutMs,
      ...{ auth, tls: access.tls },
      isOurs: (signal) => opa.engine.marker.isThere(signal),
    });
    return {
      ...{ kind: opa.kind, engine: opa.engine, access: opa.access, listeners: opa.listeners, decisions },
      version: () => opa.version(),
      rego: () => opa.rego(),
      getting: () => opa.getting(),
      pid: () => opa.pid(),
      run: async (listen, signal) => {
        await Promise.all([opa.run(listen, signal), aborted(signal).then(() => decisions.close())]);
      },
      close: async () => {
        await decisions.close();
        await opa.close();
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}
