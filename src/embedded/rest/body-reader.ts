import type { IncomingMessage } from 'node:http';
import { Arrivals } from '../../lib/arrivals.js';
import type { ByteBudget, Holder } from '../../lib/budget.js';

/** A body that has arrived, or why not. `busy`: others take the room; `aborted`: the caller went away. */
export type ArrivedBody = ReadBody | 'too large' | 'busy' | 'aborted';

/** A body, and what makes room for others once it is no longer needed. */
export interface ReadBody {
  readonly bytes: Buffer;
  readonly release: () => void;
}

/** Reads bodies within limits. */
export class BodyReader {
  readonly #bodyBytes: number;
  readonly #arrivals: Arrivals;

  /** `bodyBytes`: of one body; `budget`: of all that are held. */
  constructor(bodyBytes: number, budget: ByteBudget) {
    this.#bodyBytes = bodyBytes;
    this.#arrivals = new Arrivals(budget);
  }

  /** Reads the body of a request. Stops reading where it exceeds a limit, or stalls while others need its room. */
  read(request: IncomingMessage, holder: Holder): Promise<ArrivedBody> {
    if (Number(request.headers['content-length'] ?? 0) > this.#bodyBytes) return Promise.resolve('too large');
    return new Promise((resolve) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      const arrival = this.#arrivals.begin(holder, () => end('busy'));
      const end = (outcome: ArrivedBody): void => {
        request.off('data', onData).off('end', onEnd).off('close', onClose);
        if (typeof outcome === 'string') {
          arrival.end();
          request.pause();
        }
        resolve(outcome);
      };
      const onData = (chunk: Buffer): void => {
        bytes += chunk.length;
        chunks.push(chunk);
        if (bytes > this.#bodyBytes) end('too large');
        else if (arrival.add(chunk.length) !== undefined) end('busy');
      };
      const onEnd = (): void => {
        arrival.isWhole();
        const whole = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, bytes);
        end({ bytes: whole, release: () => arrival.end() });
      };
      const onClose = (): void => end('aborted');
      // An error is followed by `close`.
      request
        .on('data', onData)
        .on('end', onEnd)
        .on('close', onClose)
        .on('error', () => undefined);
    });
  }
}
