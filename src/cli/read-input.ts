import { open } from 'node:fs/promises';
import { whyUnreadable } from '../lib/file-problem.js';
import { expandHome } from '../lib/home-path.js';
import type { CommandIo } from './command-io.js';
import { UsageError } from './run-program.js';

/** Maximum size of the input: four times the default limit of a server. */
const MAX_BYTES = 64 * 1024 * 1024;

/**
 * Reads a text file, or standard input if the file is `-`; `~/` at the start is the home folder. Rejects with a {@link UsageError} that names option and file if it
 * cannot be read, is larger than `maxBytes`, or is not UTF-8.
 */
export async function readInput(
  option: string,
  file: string,
  { stdin }: Pick<CommandIo, 'stdin'>,
  maxBytes = MAX_BYTES,
): Promise<string> {
  const name = file === '-' ? 'standard input' : file;
  let bytes: Buffer | undefined;
  try {
    bytes = file === '-' ? await bounded(stdin, maxBytes) : await readFile(expandHome(file), maxBytes);
  } catch (error) {
    throw new UsageError(`${option}: ${name} cannot be read: ${whyUnreadable(error)}`);
  }
  if (bytes === undefined) throw new UsageError(`${option}: ${name} is larger than ${maxBytes} bytes`);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new UsageError(`${option}: ${name} is not UTF-8 text`);
  }
}

async function readFile(file: string, maxBytes: number): Promise<Buffer | undefined> {
  const handle = await open(file);
  try {
    return await bounded(handle.createReadStream({ autoClose: false }), maxBytes);
  } finally {
    await handle.close();
  }
}

/** Reads a whole stream; returns undefined if it exceeds the limit. */
async function bounded(stream: AsyncIterable<Uint8Array | string>, maxBytes: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of stream) {
    const bytes = Buffer.from(chunk as Uint8Array);
    length += bytes.length;
    if (length > maxBytes) return undefined;
    chunks.push(bytes);
  }
  return Buffer.concat(chunks);
}
