import { constants } from 'node:buffer';
import { createHash, type Hash, randomBytes } from 'node:crypto';
import { createReadStream, readFileSync } from 'node:fs';
import { type FileHandle, open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { errorText, SyncError } from '../../lib/errors.js';
import { depthLimit, JsonLongNumber, JsonTooDeep } from '../../lib/json/json-check.js';
import { Pieces } from '../../lib/net/pieces.js';
import { makeFolder } from '../../lib/settings/private-files.js';
import { type Body, bodyOfText } from '../../wire/json-node.js';
import type { ArrivingBody } from './arriving-file.js';
import { ArrivingFile, PIECE_BYTES } from './arriving-file.js';
import { createDocumentCheck, shortJson } from './document-check.js';

/**
 * A body that its caller disposes of after the last read; disposing twice is harmless. A stream
 * that has already opened the file still delivers all bytes (POSIX keeps them until it is closed).
 */
export type OwnedBody = Body & AsyncDisposable;

/** Options of {@link createSpool}. */
export interface SpoolOptions {
  /** A folder that only this client uses; created if missing. */
  dir: string;
  /** Bodies up to this size stay in memory, as one string. Default 65,536. */
  memoryLimitBytes?: number;
  /** Maximum size of a body. */
  limitBytes: number;
  /** Bytes per write to a file; default 262,144. At most two such pieces are in memory. */
  pieceBytes?: number;
  /** Bytes in the file before a body can be read while it arrives. Default 1,048,576. */
  largeBytes?: number;
}

/** Receives a large document while it arrives. Must return at once. */
export type OnLarge = (arriving: ArrivingBody) => void;

/**
 * Stores documents: checks and hashes them as they arrive, and keeps large ones in files (design
 * D34).
 */
export interface Spool {
  readonly limitBytes: number;
  /**
   * Reads `source` to its end at the speed of the disk, and keeps the bytes unchanged. Rejects with
   * `fetch_too_large` beyond the limit, `fetch_not_json` unless they are exactly one JSON value,
   * `spool_unwritable` if the file cannot be written, the signal's reason, or the error of
   * `source`; leaves nothing behind then. Checks the signal between chunks, so a source that may
   * hang must end by itself when the signal aborts. `onLarge` receives a large document while it
   * arrives. `segments`: of the path that the document is for, which bound how deep it may be
   * nested.
   */
  spool(
    source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    signal: AbortSignal,
    onLarge?: OnLarge,
    segments?: number,
  ): Promise<OwnedBody>;
}

/**
 * Bytes in its file before others may read along: a smaller document has arrived before they start.
 */
const LARGE_BYTES = 1024 * 1024;

const FILE_NAME = /^body-[0-9a-f]{32}\.json$/;

/** Creates a spool in `dir`. Removes only the leftovers of a killed client there. */
export async function createSpool(options: SpoolOptions): Promise<Spool> {
  const { dir, memoryLimitBytes = 65_536, limitBytes, pieceBytes = PIECE_BYTES, largeBytes = LARGE_BYTES } = options;
  try {
    await makeFolder(dir);
    for (const name of await readdir(dir)) {
      if (FILE_NAME.test(name)) await rm(join(dir, name), { force: true });
    }
  } catch (cause) {
    throw unwritable(dir, cause);
  }
  return {
    limitBytes,
    async spool(source, signal, onLarge, segments = 0) {
      signal.throwIfAborted();
      const short = Array.isArray(source)
        ? shortBody(source, Math.min(limitBytes, memoryLimitBytes), segments)
        : undefined;
      if (short !== undefined) return short;
      const check = createDocumentCheck(segments);
      const sink = new Sink({ dir, memoryLimitBytes, pieceBytes, largeBytes }, onLarge);
      try {
        for await (const chunk of source) {
          signal.throwIfAborted();
          if (sink.sizeBytes + chunk.length > limitBytes) {
            throw new SyncError('fetch_too_large', `the document is larger than ${limitBytes} bytes`);
          }
          asJson(() => check.push(chunk), segments);
          await sink.write(chunk, check.isOpen);
        }
        signal.throwIfAborted();
        asJson(() => check.end(), segments);
        return await sink.finish();
      } catch (error) {
        await sink.discard(error);
        throw error;
      }
    },
  };
}

/** Fast path for a short document that has arrived; undefined if it is long or not JSON. */
function shortBody(chunks: readonly Uint8Array[], limitBytes: number, segments: number): OwnedBody | undefined {
  const sizeBytes = chunks.reduce((sum, { length }) => sum + length, 0);
  if (sizeBytes > limitBytes) return undefined;
  const bytes = Buffer.concat(chunks, sizeBytes);
  const text = shortJson(bytes, segments);
  return text === undefined ? undefined : bodyOfText(text, bytes);
}

function fileBody(path: string, hash: string, sizeBytes: number, onDisposed: () => void): OwnedBody {
  let pins = 0;
  let isDisposed = false;
  const remove = (): Promise<void> => rm(path, { force: true });
  const dispose = async (): Promise<void> => {
    isDisposed = true;
    onDisposed();
    if (pins === 0) await remove();
  };
  const pin = (): (() => Promise<void>) => {
    pins++;
    let isPinned = true;
    return async () => {
      if (isPinned) pins--;
      isPinned = false;
      if (isDisposed && pins === 0) await remove();
    };
  };
  return {
    hash,
    sizeBytes,
    text: () => textOf(path, sizeBytes),
    stream: () => createReadStream(path, { highWaterMark: PIECE_BYTES }),
    dispose,
    pin,
    [Symbol.asyncDispose]: dispose,
  };
}

function textOf(path: string, sizeBytes: number): string {
  if (sizeBytes > constants.MAX_STRING_LENGTH) {
    throw new SyncError('fetch_too_large', `a document of ${sizeBytes} bytes cannot be held as one text`);
  }
  return readFileSync(path, 'utf8');
}

type SinkOptions = Required<Pick<SpoolOptions, 'dir' | 'memoryLimitBytes' | 'pieceBytes' | 'largeBytes'>>;

/**
 * Collects bytes in memory, and moves them to a file beyond the limit. Writes one piece while it
 * receives the next: there are never more than two.
 */
class Sink {
  sizeBytes = 0;
  readonly #options: SinkOptions;
  readonly #onLarge: OnLarge | undefined;
  #arriving: ArrivingFile | undefined;
  readonly #waiting = new Pieces();
  /** Bytes that are not a complete value; bytes in the file. */
  #openBytes = 0;
  #fileBytes = 0;
  #file: FileHandle | undefined;
  /** Named when it is needed: most documents are small. */
  #path = '';
  /** Hash of the bytes in the file; a body in memory is hashed at once, at half the cost. */
  #hash: Hash | undefined;
  /** The current write. Never rejects: resolves with the error. */
  #writing: Promise<unknown> = Promise.resolve();

  constructor(options: SinkOptions, onLarge: OnLarge | undefined) {
    this.#options = options;
    this.#onLarge = onLarge;
  }

  /** `isOpen`: the bytes so far are not a complete value. */
  async write(chunk: Uint8Array, isOpen: boolean): Promise<void> {
    this.sizeBytes += chunk.length;
    if (isOpen) this.#openBytes = this.sizeBytes;
    this.#waiting.push(chunk);
    const { memoryLimitBytes, pieceBytes } = this.#options;
    if (this.sizeBytes > memoryLimitBytes && this.#waiting.bytes >= pieceBytes) await this.#flush();
  }

  async finish(): Promise<OwnedBody> {
    if (this.sizeBytes <= this.#options.memoryLimitBytes) {
      const bytes = this.#waiting.join();
      return bodyOfText(bytes.toString('utf8'), bytes);
    }
    const digest = (await this.#flush()).digest('hex');
    await this.#written();
    await this.#close();
    const arriving = this.#arriving;
    const body = fileBody(this.#path, digest, this.sizeBytes, () => arriving?.gone(new Error('it was let go of')));
    arriving?.arrived(body);
    return body;
  }

  async discard(reason: unknown): Promise<void> {
    this.#arriving?.gone(reason);
    try {
      await this.#writing;
      await this.#close();
      if (this.#path === '') return;
      await rm(this.#path, { force: true });
    } catch {
      // The first error matters; the next start removes a leftover file.
    }
  }

  /**
   * Starts to write the collected bytes after the current write. Returns the hash of all bytes so
   * far.
   */
  async #flush(): Promise<Hash> {
    await this.#written();
    const bytes = this.#waiting.bytes;
    const chunks = this.#waiting.take();
    const sum = this.#hash ?? createHash('sha256');
    this.#hash = sum;
    for (const chunk of chunks) sum.update(chunk);
    this.#writing = this.#append(chunks, bytes).catch((cause: unknown) => unwritable(this.#options.dir, cause));
    return sum;
  }

  async #written(): Promise<void> {
    const failure = await this.#writing;
    if (failure !== undefined) throw failure;
  }

  async #append(chunks: readonly Uint8Array[], bytes: number): Promise<void> {
    if (this.#file === undefined) {
      this.#path = join(this.#options.dir, `body-${randomBytes(16).toString('hex')}.json`);
      this.#file = await open(this.#path, 'wx', 0o600);
    }
    const { bytesWritten } = await this.#file.writev(chunks); // appends
    if (bytesWritten < bytes) await this.#file.writeFile(Buffer.concat(chunks).subarray(bytesWritten));
    this.#fileBytes += bytes;
    if (this.#arriving === undefined && this.#fileBytes >= this.#options.largeBytes) this.#announce();
    this.#arriving?.reached(Math.min(this.#fileBytes, this.#openBytes));
  }

  #announce(): void {
    if (this.#onLarge === undefined) return;
    this.#arriving = new ArrivingFile(this.#path);
    this.#onLarge(this.#arriving);
  }

  async #close(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
  }
}

function asJson(step: () => void, segments: number): void {
  try {
    step();
  } catch (cause) {
    // It is JSON, and engines take too long for it.
    if (cause instanceof JsonLongNumber) throw new SyncError('fetch_not_json', cause.message, { cause });
    const what = cause instanceof JsonTooDeep ? depthLimit(segments) : 'the document is not JSON';
    throw new SyncError('fetch_not_json', `${what}: ${errorText(cause)}`, { cause });
  }
}

function unwritable(dir: string, cause: unknown): SyncError {
  return new SyncError('spool_unwritable', `the spool folder ${dir} cannot be written: ${errorText(cause)}`, {
    cause,
    retryable: true,
  });
}
