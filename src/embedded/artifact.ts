import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { SyncError } from '../lib/errors.js';

/**
 * OPA's Go code, ready to be instantiated, and Go's own JavaScript that runs it. Threads share the
 * module.
 */
export interface GoProgram {
  readonly module: WebAssembly.Module;
  /** Text of `wasm_exec.js`. */
  readonly exec: string;
}

/** What the thread that loads the artifact sends: the program, or what is wrong with a file. */
export type Loaded = GoProgram | { readonly file: string; readonly problem: string };

/** Where the artifact is in a package: beside its `package.json`. */
const FOLDER = join('engine', 'dist');

/**
 * The Go program of this package: read, verified, decompressed and compiled at the first
 * {@link load}, off the caller's thread. The compiled module takes memory until {@link release} and
 * the end of the threads that use it.
 */
export class EngineArtifact {
  readonly #folder: string | undefined;
  #loading: Promise<GoProgram> | undefined;

  /** `folder`: where the files are. Default: in the package of this code. */
  constructor(folder?: string) {
    this.#folder = folder;
  }

  /**
   * Rejects with `engine_artifact_invalid` if a file is missing or is not the one that belongs to
   * this code.
   */
  load(): Promise<GoProgram> {
    if (this.#loading === undefined) {
      const loading = loadProgram(this.#folder ?? packagedFolder());
      this.#loading = loading;
      loading.catch(() => {
        if (this.#loading === loading) this.#loading = undefined; // the next call tries again
      });
    }
    return this.#loading;
  }

  /** Forgets the module, so that its memory goes back with the last thread that uses it. */
  release(): void {
    this.#loading = undefined;
  }
}

/**
 * Loads in a thread of its own, which ends then: what decompressing and compiling leave behind in
 * memory ends with it. The files are compared with the sums there.
 */
async function loadProgram(folder: string): Promise<GoProgram> {
  const worker = new Worker(new URL('./artifact-worker.js', import.meta.url), { workerData: folder, env: {} });
  try {
    const [loaded] = (await once(worker, 'message')) as [Loaded];
    if ('problem' in loaded) throw invalid(loaded.file, loaded.problem);
    return loaded;
  } finally {
    await worker.terminate();
  }
}

function invalid(file: string, what: string): SyncError {
  return new SyncError('engine_artifact_invalid', `${file} of the embedded engine ${what}: install the package again`);
}

/**
 * The folder of the nearest package above this file that has the artifact; where it should be if
 * none has.
 */
function packagedFolder(): string {
  let nearest: string | undefined;
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) {
      const place = join(folder, FOLDER);
      if (existsSync(place)) return place;
      nearest ??= place;
    }
    if (folder === dirname(folder)) return nearest ?? FOLDER;
  }
}
