import { aborted } from '../../lib/async.js';
import { assertNotOurs, childEnv } from '../../lib/child-env.js';
import { errorText, failureFields, SyncError } from '../../lib/errors.js';
import type { OutgoingTls } from '../../lib/tls.js';
import type { ClientSettings } from '../options.js';
import { acquireOpa } from './acquire-opa.js';
import { compilerCheck } from './compiler-check.js';
import { EngineRefusal } from './engine.js';
import { openEngineAccess } from './engine-access.js';
import { fixedAuth } from './engine-auth.js';
import { ExternalOpa } from './external-opa.js';
import { InlineOpa } from './inline-opa.js';
import { listenAddress, splitAddress } from './opa-args.js';
import { AUTHZ_PATH, type EngineAccessKind, engineAccessKind, makeAuthz, type OpaAuthz } from './opa-authz.js';
import { OpaBundleServer } from './opa-bundle-server.js';
import { OpaDecisions } from './opa-decisions.js';
import { createOpaProcess, type OpaProcess } from './opa-process.js';
import { capabilitiesWithout, type OpaProgram, opaCheck, opaParser, type PolicyCheck } from './opa-program.js';
import { OpaRest } from './opa-rest.js';
import type { OpaSearch } from './opa-search.js';
import { RegoVersions, regoMode } from './rego-versions.js';
import type { CreateEngineDeps, RunningEngine } from './running-engine.js';

/** A bundle of thousands of modules compiles longer than any single request takes. */
const ACTIVATION_FACTOR = 4;

/** After this many timeouts, a request without a response has taken effect or never will. */
const DOUBT_FACTOR = 2;

/** An OPA process, which is asked over REST. */
type RunningOpa = Omit<RunningEngine, 'decisions'>;

/** Creates the chosen engine. An inline one may still search for its OPA program: calls to the engine wait for it. */
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
    const { createEmbedded } = await import('./create-embedded.js');
    return createEmbedded(settings, deps);
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
    const engine =
      choice.kind === 'external'
        ? externalEngine(settings, rest, deps)
        : await inlineEngine(settings, { rest, tls: access.tls, authz, access: kind, program: choice.opa }, deps);
    const decisions = new OpaDecisions({
      url: settings.engineUrl,
      timeoutMs: deps.decisionTimeoutMs ?? settings.engineTimeoutMs,
      ...{ auth, tls: access.tls },
      isOurs: (signal) => engine.engine.marker.isThere(signal),
    });
    return {
      ...engine,
      decisions,
      run: async (listen, signal) => {
        await Promise.all([engine.run(listen, signal), aborted(signal).then(() => decisions.close())]);
      },
      close: async () => {
        await decisions.close();
        await engine.close();
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function inlineEngine(
  settings: ClientSettings,
  {
    rest,
    tls,
    authz,
    access,
    program,
  }: {
    rest: OpaRest;
    tls: OutgoingTls;
    authz: OpaAuthz | undefined;
    access: EngineAccessKind;
    program: OpaSearch;
  },
  deps: CreateEngineDeps,
): Promise<RunningOpa> {
  const { log, env, reserved } = deps;
  const bundles = new OpaBundleServer();
  await bundles.start();
  const limited = settings.inlineEngineBuiltinsOff.length > 0;
  const capabilities = capabilitiesWithout(settings.inlineEngineBuiltinsOff);
  const judge = async (): Promise<OpaProgram> => {
    const execPath = (await program.found).path;
    return { execPath, env, capabilities: limited ? await capabilities.file({ execPath, env }) : undefined };
  };
  const versions = new RegoVersions(regoMode(settings), {
    parse: opaParser(judge),
    onRead: (counts) => log.debug({ ...counts }, 'modules by the version of Rego that they are read as'),
  });
  let process: OpaProcess | undefined;
  return {
    kind: 'inline',
    engine: new InlineOpa(
      {
        activationTimeoutMs: ACTIVATION_FACTOR * settings.engineTimeoutMs,
        reserved: [...reserved, ...(authz === undefined ? [] : [AUTHZ_PATH])],
        isGuarded: authz !== undefined,
        checksFirst: limited,
        files: settings.inlineEngineConfig?.files ?? [],
      },
      {
        bundles,
        rest,
        log,
        versions,
        check: opaCheck(judge, versions),
      },
    ),
    run: async ({ onStarted, onGone }, runSignal) => {
      const opa = await program.found.catch((error: unknown) => {
        if (!runSignal.aborted) throw error;
      });
      if (opa === undefined) return;
      await judge(); // reports invalid names of built-in functions at once
      process = createOpaProcess(
        {
          execPath: opa.path,
          engineUrl: settings.engineUrl,
          tls,
          config: settings.inlineEngineConfig,
          configText: bundles.opaConfig(authz !== undefined),
          authzRego: authz?.rego,
          v0Compatible: versions.mode === 'v0',
          logFormat: settings.inlineEngineLogFormat,
          env: childEnv(env, 'opa', settings.inlineEngineEnv),
        },
        {
          log,
          onStarted,
          onExit: ({ reason }) => {
            bundles.engineGone();
            onGone(reason);
          },
        },
      );
      // At SIGTERM, OPA waits for each connection that has had no request yet: 5 s, or until we
      // close it. A request that the stop overtakes leaves such a one.
      await Promise.all([process.run(runSignal), aborted(runSignal).then(() => rest.close())]);
    },
    access,
    version: program.version,
    rego: () => (versions.counts === undefined ? undefined : { mode: versions.mode, ...versions.counts }),
    getting: program.getting,
    listeners: [
      { what: 'the bundle service of this client', place: bundles.place },
      ...engineListeners(settings.inlineEngineConfig?.addr),
    ],
    pid: () => process?.pid,
    close: async () => {
      await bundles.stop();
      await capabilities.close();
    },
  };
}

function engineListeners(address: string | undefined): RunningEngine['listeners'] {
  const place = address === undefined ? undefined : splitAddress(address);
  return place === undefined
    ? []
    : [{ what: 'the policy engine of this client', place: { host: place.host ?? '0.0.0.0', port: place.port } }];
}

function externalEngine(
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

/** Uses an OPA program that is already on this machine to check policies before they are sent to the external engine. */
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
