import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { brotliDecompressSync } from 'node:zlib';
import type { Loaded } from './artifact.js';
import { ARTIFACT } from './artifact-sums.js';

/** The thread that loads the Go program (artifact.ts). */

type FileName = keyof typeof ARTIFACT.sha256;

/** A file is missing, or is another one. */
class FileProblem extends Error {
  readonly file: string;

  constructor(file: string, message: string) {
    super(message);
    this.file = file;
  }
}

function verified(folder: string, name: FileName): Buffer {
  const file = join(folder, name);
  const bytes = read(file);
  const sum = createHash('sha256').update(bytes).digest('hex');
  const wanted = ARTIFACT.sha256[name];
  if (sum !== wanted) throw new FileProblem(file, `has SHA-256 ${sum} instead of ${wanted}`);
  return bytes;
}

function read(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new FileProblem(file, `cannot be read (${error instanceof Error ? error.message : String(error)})`);
  }
}

async function load(folder: string): Promise<Loaded> {
  try {
    const exec = verified(folder, 'wasm_exec.js').toString();
    const wasm = brotliDecompressSync(verified(folder, 'opa.wasm.br'), {
      chunkSize: ARTIFACT.wasmBytes, // one buffer, which is not copied
      maxOutputLength: ARTIFACT.wasmBytes,
    });
    return { module: await WebAssembly.compile(wasm), exec };
  } catch (error) {
    if (error instanceof FileProblem) return { file: error.file, problem: error.message };
    throw error;
  }
}

parentPort?.postMessage(await load(workerData as string));
