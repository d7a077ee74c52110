import type { IncomingMessage } from 'node:http';

/** Bytes of request bodies. */
export interface BodyLimits {
  /** Of one body. */
  readonly bodyBytes: number;
  /** Of all bodies under way. */
  readonly totalBytes: number;
}

/** A body that has arrived, or why not. `busy`: others take the room; `aborted`: the caller went away. */
export type ArrivedBody = Buffer | 'too large' | 'busy' | 'aborted';

/** Reads bodies within limits. Every body is given back with {@link release}. */
export class BodyReader {
  readonly #limits: BodyLimits;
  #takenBytes = 0;

  constructor(limits: BodyLimits) {
    this.#limits = limits;
  }

  /** Bytes of bodies that are held. */
  get takenBytes(): number {
    return this.#takenBytes;
  }

  /** Reads the body of a request. Stops reading where it exceeds a limit. */
  read(request: IncomingMessage): Promise<ArrivedBody> {
    const declared = Number(request.headers['content-length'] ?? 0);
    if (declared > this.#limits.bodyBytes) return Promise.resolve('too large');
    if (this.#takenBytes + declared > this.#limits.totalBytes) return Promise.resolve('busy');
    return new Promise((resolve) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      const end = (outcome: ArrivedBody): void => {
        request.off('data', onData).off('end', onEnd).off('close', onClose);
        if (!Buffer.isBuffer(outcome)) {
          this.#takenBytes -= bytes;
          request.pause();
        }
        resolve(outcome);
      };
      const onData = (chunk: Buffer): void => {
        bytes += chunk.length;
        this.#takenBytes += chunk.length;
        chunks.push(chunk);
        if (bytes > this.#limits.bodyBytes) end('too large');
        else if (this.#takenBytes > this.#limits.totalBytes) end('busy');
      };
      const onEnd = (): void => end(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, bytes));
      const onClose = (): void => end('aborted');
      // An error is followed by `close`.
      request
        .on('data', onData)
        .on('end', onEnd)
        .on('close', onClose)
        .on('error', () => undefined);
    });
  }

  /** Makes room for others once a body is no longer needed. */
  release(body: Buffer): void {
    this.#takenBytes -= body.length;
  }
}
