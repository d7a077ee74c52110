import { EngineArtifact } from '../../embedded/artifact.js';
import { EmbeddedOpa } from '../../embedded/embedded-opa.js';
import { COMPILE_MS } from '../../embedded/entrypoint-compiler.js';
import { type EvaluatorOptions, startEvaluator } from '../../embedded/evaluator/start-evaluator.js';
import type { GoHost } from '../../embedded/go/go-host.js';
import { GoProcess } from '../../embedded/go/go-process.js';
import { aborted } from '../../lib/async.js';
import { childEnv } from '../../lib/child-env.js';
import { errorCode, errorText } from '../../lib/errors.js';
import type { ClientSettings } from '../options.js';
import { embeddedDecisions } from './embedded-decisions.js';
import { EmbeddedEngine } from './embedded-engine.js';
import { createEngineFront } from './engine-front.js';
import { EntrypointFile } from './entrypoint-file.js';
import { httpSendHost } from './http-send-host.js';
import { type RegoParser, RegoVersions, regoMode } from './rego-versions.js';
import type { CreateEngineDeps, RunningEngine } from './running-engine.js';

/** A policy of thousands of modules compiles longer than any single request takes. */
const WORK_FACTOR = 4;
/** First delay before a part of the engine is started again. */
const RETRY_MIN_MS = 200;

/** Creates the engine inside the package. Its parts start with `run`. */
export async function createEmbedded(settings: ClientSettings, deps: CreateEngineDeps): Promise<RunningEngine> {
  const { log, env, reserved } = deps;
  const artifact = new EngineArtifact();
  const sending = settings.embeddedHttpSend ? openSending(settings, deps) : undefined;
  const known = new EntrypointFile(settings.clientId ?? `${settings.serverUrl} ${settings.engineUrl}`, { env, log });
  const evaluators: EvaluatorOptions = {
    thread: settings.embeddedThread,
    memoryLimitBytes: settings.embeddedMemoryLimitBytes,
    timeLimitMs: settings.embeddedDecisionTimeoutMs,
    loadProgram: () => artifact.load(),
  };
  const startGo = (): Promise<GoProcess> =>
    GoProcess.start({
      env: childEnv(env, 'engine'),
      host: sending?.host,
      memoryLimitBytes: settings.embeddedMemoryLimitBytes,
    });
  let listen: { onStarted(): void; onGone(reason: string): void } | undefined;
  const opa = new EmbeddedOpa(
    {
      decisionMs: settings.embeddedDecisionTimeoutMs,
      workMs: WORK_FACTOR * settings.engineTimeoutMs,
      compileMs: COMPILE_MS,
      idleMs: settings.embeddedIdleMs,
      backoff: { minMs: RETRY_MIN_MS, maxMs: settings.retryMaxMs },
      maxEntrypoints: settings.embeddedMaxEntrypoints,
      entrypoints: settings.embeddedEntrypoints,
      knownEntrypoints: await known.read(),
    },
    {
      startGo,
      startCompiler: startGo,
      startEvaluator: (content) => startEvaluator(evaluators, content),
      releaseGo: () => artifact.release(),
      onFailing: (reason) => {
        if (reason === undefined) listen?.onStarted();
        else listen?.onGone(reason);
      },
      log,
    },
  );
  const parse: RegoParser = async (modules, version) => {
    const list = [...modules].map(([path, rego]) => ({ path, rego }));
    return new Set(await opa.parse(list, version));
  };
  const versions = new RegoVersions(regoMode(settings), {
    parse,
    onRead: (counts) => log.debug({ ...counts }, 'modules by the version of Rego that they are read as'),
  });
  const engine = new EmbeddedEngine(opa, { reserved, versions });
  const front = deps.listens
    ? createEngineFront(settings, { source: opa, isReady: () => opa.policy !== undefined, log })
    : undefined;
  return {
    kind: 'embedded',
    engine,
    access: 'embedded',
    embedded: opa,
    decisions: embeddedDecisions(opa),
    version: () => opa.version,
    rego: () => (versions.counts === undefined ? undefined : { mode: versions.mode, ...versions.counts }),
    getting: () => undefined,
    listeners: front === undefined ? [] : [{ what: 'the policy engine of this client', place: front.place }],
    pid: () => undefined,
    run: async ({ onStarted, onGone }, signal) => {
      await front?.listen(signal); // first: without its address there is nothing to start
      const isBack = await startOrTell(opa, onGone, signal);
      if (signal.aborted) return;
      listen = { onStarted, onGone };
      if (isBack) onStarted();
      await aborted(signal);
      listen = undefined;
    },
    close: async () => {
      engine.marker.clear();
      await known.write(opa.state.compiled);
      await front?.close();
      await opa.close();
      await sending?.close();
    },
  };
}

/** Starts the engine. Returns false if it does not start, which is tried again. Rejects if trying again does not help. */
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

/** Where `http.send` goes: like all requests to addresses that a peer names. */
function openSending(
  { fetchTimeoutMs, fetchLimitBytes: limitBytes }: ClientSettings,
  { outbound, gate }: CreateEngineDeps,
): { readonly host: GoHost; close(): Promise<void> } {
  if (outbound === undefined || gate === undefined) throw new Error('http.send needs the gate of the client');
  const dispatcher = outbound.dispatcher(fetchTimeoutMs, gate);
  return { host: httpSendHost({ dispatcher, gate, limitBytes }), close: () => dispatcher.close() };
}
