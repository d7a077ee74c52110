import { EngineArtifact } from '../../src/embedded/artifact.js';
import { EmbeddedOpa, type EmbeddedOpaOptions } from '../../src/embedded/embedded-opa.js';
import { startEvaluator } from '../../src/embedded/evaluator/evaluator.js';
import { GoProcess } from '../../src/embedded/go/go-process.js';
import { silentLogger } from '../../src/lib/observe/log.js';

const MEMORY_LIMIT_BYTES = 1024 ** 3;
const TIME_LIMIT_MS = 60_000;

/** An embedded OPA with its threads, without a client around it. */
export async function startEmbeddedOpa({
  evaluatorMs = TIME_LIMIT_MS,
  goBytes,
  onGo,
  onCompiler,
  ...options
}: Partial<EmbeddedOpaOptions> & {
  evaluatorMs?: number;
  /** What a Go process may have. Default: any. */
  goBytes?: number;
  /** Hears of each Go process that was started. */
  onGo?: (go: GoProcess) => void;
  /** Hears of each process that compiles entrypoints. */
  onCompiler?: (go: GoProcess) => void;
} = {}): Promise<{ readonly opa: EmbeddedOpa } & AsyncDisposable> {
  const artifact = new EngineArtifact();
  const loadProgram = () => artifact.load();
  const opa = new EmbeddedOpa(
    {
      ...{ decisionMs: TIME_LIMIT_MS, workMs: TIME_LIMIT_MS, compileMs: TIME_LIMIT_MS, idleMs: 10 * TIME_LIMIT_MS },
      ...{ memoryLimitBytes: MEMORY_LIMIT_BYTES, maxEntrypoints: 100, entrypoints: [] },
      backoff: { minMs: 10, maxMs: 100 },
      ...options,
    },
    {
      startGo: async () => {
        const go = await GoProcess.start({ memoryLimitBytes: goBytes });
        onGo?.(go);
        return go;
      },
      startCompiler: async () => {
        const go = await GoProcess.start({ memoryLimitBytes: goBytes });
        onCompiler?.(go);
        return go;
      },
      startEvaluator: (content) =>
        startEvaluator(
          { thread: 'worker', memoryLimitBytes: MEMORY_LIMIT_BYTES, timeLimitMs: evaluatorMs, loadProgram },
          content,
        ),
      releaseGo: () => artifact.release(),
      onFailing: () => undefined,
      log: silentLogger(),
    },
  );
  await opa.start();
  return { opa, [Symbol.asyncDispose]: () => opa.close() };
}
