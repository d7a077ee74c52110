import type { OutgoingTls } from '../../../lib/net/tls.js';
import { aborted } from '../../../lib/run/async.js';
import { childEnv } from '../../../lib/run/child-env.js';
import type { ClientSettings } from '../../options.js';
import type { OpaSearch } from '../get-opa/opa-search.js';
import { RegoVersions, regoMode } from '../modules/rego-versions.js';
import { InlineOpa } from './inline-opa.js';
import { splitAddress } from './opa-args.js';
import { AUTHZ_PATH, type EngineAccessKind, type OpaAuthz } from './opa-authz.js';
import { OpaBundleServer } from './opa-bundle-server.js';
import { OpaProcess } from './opa-process.js';
import { capabilitiesWithout, type OpaProgram, opaCheck, opaParser } from './opa-program.js';
import type { OpaRest } from './opa-rest.js';
import type { CreateEngineDeps, RunningOpa } from './running-engine.js';

/** A bundle of thousands of modules compiles longer than any single request takes. */
const ACTIVATION_FACTOR = 4;

/** How an inline engine is reached, and the program that it is. */
export interface InlineAccess {
  readonly rest: OpaRest;
  readonly tls: OutgoingTls;
  /** Our authorization policy; undefined: the operator's configuration decides. */
  readonly authz: OpaAuthz | undefined;
  readonly access: EngineAccessKind;
  readonly program: OpaSearch;
}

/** OPA as a child process of the client. */
export class InlineEngine implements RunningOpa {
  readonly kind = 'inline';
  readonly engine: InlineOpa;
  readonly #settings: ClientSettings;
  readonly #of: InlineAccess;
  readonly #deps: CreateEngineDeps;
  readonly #bundles: OpaBundleServer;
  readonly #versions: RegoVersions;
  readonly #capabilities: ReturnType<typeof capabilitiesWithout>;
  #process: OpaProcess | undefined;

  private constructor(
    settings: ClientSettings,
    of: InlineAccess,
    deps: CreateEngineDeps & { readonly bundles: OpaBundleServer },
  ) {
    const { log, reserved, bundles } = deps;
    const { rest, authz } = of;
    const { files = [], config_file: ownConfig } = settings.inlineEngineConfig ?? {};
    this.#settings = settings;
    this.#of = of;
    this.#deps = deps;
    this.#bundles = bundles;
    this.#capabilities = capabilitiesWithout(settings.inlineEngineBuiltinsOff);
    const judge = (): Promise<OpaProgram> => this.#judge();
    this.#versions = new RegoVersions(regoMode(settings), {
      parse: opaParser(judge),
      onRead: (counts) => log.debug({ ...counts }, 'modules by the version of Rego that they are read as'),
    });
    this.engine = new InlineOpa(
      {
        activationTimeoutMs: ACTIVATION_FACTOR * settings.engineTimeoutMs,
        reserved: [...reserved, ...(authz === undefined ? [] : [AUTHZ_PATH])],
        isGuarded: authz !== undefined,
        // A configuration of the operator's may have bundles, too.
        isAlone: authz !== undefined && files.length === 0 && ownConfig === undefined,
        checksFirst: this.#isLimited,
        files,
      },
      { bundles, rest, log, versions: this.#versions, check: opaCheck(judge, this.#versions) },
    );
  }

  /** Creates one whose bundle service listens. */
  static async create(settings: ClientSettings, of: InlineAccess, deps: CreateEngineDeps): Promise<InlineEngine> {
    const bundles = new OpaBundleServer();
    await bundles.start();
    return new InlineEngine(settings, of, { ...deps, bundles });
  }

  get access(): EngineAccessKind {
    return this.#of.access;
  }

  get listeners(): RunningOpa['listeners'] {
    return [
      { what: 'the bundle service of this client', place: this.#bundles.place },
      ...engineListeners(this.#settings.inlineEngineConfig?.addr),
    ];
  }

  version(): string | undefined {
    return this.#of.program.version();
  }

  rego(): ReturnType<RunningOpa['rego']> {
    const { counts, mode } = this.#versions;
    return counts === undefined ? undefined : { mode, ...counts };
  }

  getting(): string | undefined {
    return this.#of.program.getting();
  }

  pid(): number | undefined {
    return this.#process?.pid;
  }

  async run(...[{ onStarted, onGone }, signal]: Parameters<RunningOpa['run']>): Promise<void> {
    const { authz, program, rest, tls } = this.#of;
    const settings = this.#settings;
    const opa = await program.found.catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
    if (opa === undefined) return;
    await this.#judge(); // reports invalid names of built-in functions at once
    this.#process = new OpaProcess(
      {
        execPath: opa.path,
        engineUrl: settings.engineUrl,
        tls,
        config: settings.inlineEngineConfig,
        configText: this.#bundles.opaConfig(authz !== undefined),
        authzRego: authz?.rego,
        v0Compatible: this.#versions.mode === 'v0',
        logFormat: settings.inlineEngineLogFormat,
        env: childEnv(this.#deps.env, 'opa', settings.inlineEngineEnv),
      },
      {
        log: this.#deps.log,
        onStarted,
        onExit: ({ reason }) => {
          this.#bundles.engineGone();
          onGone(reason);
        },
      },
    );
    // At SIGTERM, OPA waits for each connection that has had no request yet: 5 s, or until we close
    // it. A request that the stop overtakes leaves such a one.
    await Promise.all([this.#process.run(signal), aborted(signal).then(() => rest.close())]);
  }

  async close(): Promise<void> {
    await this.#bundles.stop();
    await this.#capabilities.close();
  }

  get #isLimited(): boolean {
    return this.#settings.inlineEngineBuiltinsOff.length > 0;
  }

  /** The program that judges modules, with the built-in functions that the engine has. */
  async #judge(): Promise<OpaProgram> {
    const { env } = this.#deps;
    const execPath = (await this.#of.program.found).path;
    const capabilities = this.#isLimited ? await this.#capabilities.file({ execPath, env }) : undefined;
    return { execPath, env, capabilities };
  }
}

function engineListeners(address: string | undefined): RunningOpa['listeners'] {
  const place = address === undefined ? undefined : splitAddress(address);
  return place === undefined
    ? []
    : [{ what: 'the policy engine of this client', place: { host: place.host ?? '0.0.0.0', port: place.port } }];
}
