import { EngineArtifact } from '../../../embedded/artifact.js';
import { EmbeddedOpa } from '../../../embedded/embedded-opa.js';
import { COMPILE_MS } from '../../../embedded/entrypoint-compiler.js';
import { type EvaluatorOptions, startEvaluator } from '../../../embedded/evaluator/evaluator.js';
import type { GoHost } from '../../../embedded/go/go-host.js';
import { GoProcess } from '../../../embedded/go/go-process.js';
import { errorCode, errorText } from '../../../lib/errors.js';
import { aborted } from '../../../lib/run/async.js';
import { childEnv } from '../../../lib/run/child-env.js';
import type { ClientSettings } from '../../options.js';
import type { DecisionEngine } from '../decision-engine.js';
import { type RegoParser, RegoVersions, regoMode } from '../modules/rego-versions.js';
import type { CreateEngineDeps, RunningEngine } from '../opa/running-engine.js';
import { EmbeddedEngine } from './embedded-engine.js';
import { createEngineFront, type EngineFront } from './engine-front.js';
import { EntrypointFile } from './entrypoint-file.js';
import { httpSendHost } from './http-send-host.js';

/** A policy of thousands of modules compiles longer than any single request takes. */
const WORK_FACTOR = 4;
/** First delay before a part of the engine is started again. */
const RETRY_MIN_MS = 200;

/** The engine inside the package. */
export class RunningEmbedded implements RunningEngine {
  readonly kind = 'embedded';
  readonly access = 'embedded';
  readonly engine: EmbeddedEngine;
  readonly embedded: EmbeddedOpa;
  readonly decisions: DecisionEngine;
  readonly listeners: RunningEngine['listeners'];
  readonly #versions: RegoVersions;
  readonly #front: EngineFront | undefined;
  readonly #sending: Sending | undefined;
  readonly #known: EntrypointFile;
  #listen: Parameters<RunningEngine['run']>[0] | undefined;

  private constructor(
    settings: ClientSettings,
    deps: CreateEngineDeps,
    known: { readonly file: EntrypointFile; readonly entrypoints: readonly string[] },
  ) {
    const { log, env, reserved } = deps;
    const artifact = new EngineArtifact();
    this.#known = known.file;
    this.#sending = settings.embeddedHttpSend ? openSending(settings, deps) : undefined;
    const evaluators: EvaluatorOptions = {
      thread: settings.embeddedThread,
      memoryLimitBytes: settings.embeddedMemoryLimitBytes,
      timeLimitMs: settings.embeddedDecisionTimeoutMs,
      loadProgram: () => artifact.load(),
    };
    const startGo = (): Promise<GoProcess> =>
      GoProcess.start({
        env: childEnv(env, 'engine'),
        host: this.#sending?.host,
        memoryLimitBytes: settings.embeddedMemoryLimitBytes,
      });
    const opa = new EmbeddedOpa(
      {
        decisionMs: settings.embeddedDecisionTimeoutMs,
        workMs: WORK_FACTOR * settings.engineTimeoutMs,
        compileMs: COMPILE_MS,
        idleMs: settings.embeddedIdleMs,
        backoff: { minMs: RETRY_MIN_MS, maxMs: settings.retryMaxMs },
        maxEntrypoints: settings.embeddedMaxEntrypoints,
        entrypoints: settings.embeddedEntrypoints,
        knownEntrypoints: known.entrypoints,
      },
      {
        startGo,
        startCompiler: startGo,
        startEvaluator: (content) => startEvaluator(evaluators, content),
        releaseGo: () => artifact.release(),
        onFailing: (reason) => {
          if (reason === undefined) this.#listen?.onStarted();
          else this.#listen?.onGone(reason);
        },
        log,
      },
    );
    const parse: RegoParser = async (modules, version) => {
      const list = [...modules].map(([path, rego]) => ({ path, rego }));
      return new Set(await opa.parse(list, version));
    };
    this.#versions = new RegoVersions(regoMode(settings), {
      parse,
      onRead: (counts) => log.debug({ ...counts }, 'modules by the version of Rego that they are read as'),
    });
    this.embedded = opa;
    this.engine = new EmbeddedEngine(opa, { reserved, versions: this.#versions });
    this.decisions = {
      decide: (question) => opa.answer(question),
      keepsContent: true,
      reads: (path) => opa.readsOf(path),
    };
    this.#front = deps.listens
      ? createEngineFront(settings, { source: opa, isReady: () => opa.policy !== undefined, log })
      : undefined;
    this.listeners =
      this.#front === undefined ? [] : [{ what: 'the policy engine of this client', place: this.#front.place }];
  }

  /** Creates one. Its parts start with {@link run}. */
  static async create(settings: ClientSettings, deps: CreateEngineDeps): Promise<RunningEmbedded> {
    const id = settings.clientId ?? `${settings.serverUrl} ${settings.engineUrl}`;
    const file = new EntrypointFile(id, deps);
    return new RunningEmbedded(settings, deps, { file, entrypoints: await file.read() });
  }

  version(): string | undefined {
    return this.embedded.version;
  }

  rego(): ReturnType<RunningEngine['rego']> {
    const { counts, mode } = this.#versions;
    return counts === undefined ? undefined : { mode, ...counts };
  }

  getting(): undefined {
    return undefined;
  }

  pid(): undefined {
    return undefined;
  }

  async run(...[{ onStarted, onGone }, signal]: Parameters<RunningEngine['run']>): Promise<void> {
    await this.#front?.listen(signal); // first: without its address there is nothing to start
    const isBack = await startOrTell(this.embedded, onGone, signal);
    if (signal.aborted) return;
    this.#listen = { onStarted, onGone };
    if (isBack) onStarted();
    await aborted(signal);
    this.#listen = undefined;
  }

  async close(): Promise<void> {
    this.engine.marker.clear();
    await this.#known.write(this.embedded.knownEntrypoints);
    await this.#front?.close();
    await this.embedded.close();
    await this.#sending?.close();
  }
}

/**
 * Starts the engine. Returns false if it does not start, which is tried again. Rejects if trying
 * again does not help.
 */
async function startOrTell(opa: EmbeddedOpa, onGone: (reason: string) => void, signal: AbortSignal): Promise<boolean> {
  try {
    await opa.start();
    return true;
  } catch (error) {
    if (signal.aborted) return false;
    if (errorCode(error) === 'engine_artifact_invalid') throw error;
    onGone(errorText(error));
    return false;
  }
}

/** Where `http.send` goes. */
interface Sending {
  readonly host: GoHost;
  close(): Promise<void>;
}

/** Requests go where all go to addresses that a peer names. */
function openSending(
  { fetchTimeoutMs, fetchLimitBytes: limitBytes }: ClientSettings,
  { outbound, gate }: CreateEngineDeps,
): Sending {
  if (outbound === undefined || gate === undefined) throw new Error('http.send needs the gate of the client');
  const dispatcher = outbound.dispatcher(fetchTimeoutMs, gate);
  return { host: httpSendHost({ dispatcher, gate, limitBytes }), close: () => dispatcher.close() };
}
