import { webcrypto } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { brotliDecompress, constants } from 'node:zlib';
import { SyncError } from '../lib/errors.js';
import { ARTIFACT } from './artifact-sums.js';

/** OPA's Go code, ready to be instantiated, and Go's own JavaScript that runs it. Threads share the module. */
export interface GoProgram {
  readonly module: WebAssembly.Module;
  /** Text of `wasm_exec.js`. */
  readonly exec: string;
}

const decompress = promisify(brotliDecompress);

/** Where the artifact is in a package: beside its `package.json`. */
const FOLDER = join('engine', 'dist');

/**
 * The Go program of this package: read, verified, decompressed and compiled at the first {@link load}, off the caller's thread.
 * The compiled module takes memory until {@link release} and the end of the threads that use it.
 */
export class EngineArtifact {
  readonly #folder: string | undefined;
  #loading: Promise<GoProgram> | undefined;

  /** `folder`: where the files are. Default: in the package of this code. */
  constructor(folder?: string) {
    this.#folder = folder;
  }

  /** Rejects with `engine_artifact_invalid` if a file is missing or is not the one that belongs to this code. */
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

async function loadProgram(folder: string): Promise<GoProgram> {
  const [exec, packed] = await Promise.all([verified(folder, 'wasm_exec.js'), verified(folder, 'opa.wasm.br')]);
  const wasm = await decompress(packed, {
    chunkSize: ARTIFACT.wasmBytes, // one buffer, which is not copied
    maxOutputLength: ARTIFACT.wasmBytes,
    params: { [constants.BROTLI_DECODER_PARAM_LARGE_WINDOW]: 0 },
  });
  return { module: await WebAssembly.compile(wasm), exec: new TextDecoder().decode(exec) };
}

async function verified(folder: string, name: keyof typeof ARTIFACT.sha256): Promise<Buffer> {
  const file = join(folder, name);
  let bytes: Buffer;
  try {
    bytes = await readFile(file);
  } catch (cause) {
    throw invalid(file, 'cannot be read', cause);
  }
  // Not createHash: this one works in a thread of its own.
  const sum = Buffer.from(await webcrypto.subtle.digest('SHA-256', bytes)).toString('hex');
  if (sum !== ARTIFACT.sha256[name]) throw invalid(file, `has SHA-256 ${sum} instead of ${ARTIFACT.sha256[name]}`);
  return bytes;
}

function invalid(file: string, what: string, cause?: unknown): SyncError {
  return new SyncError('engine_artifact_invalid', `${file} of the embedded engine ${what}: install the package again`, {
    cause,
  });
}

/** The folder of the nearest package above this file that has the artifact; where it should be if none has. */
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
