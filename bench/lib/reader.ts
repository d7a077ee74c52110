import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Asks an OPA for one document over and over, cheaply, so that the asking disturbs what is measured as little as can be. `await using`
 * ends it.
 */
export interface Reader extends AsyncDisposable {
  /**
   * Resolves with the time (of `performance.now()`) at which the answer first was as wanted. Throws after `withinMs`. `isLong`: it
   * takes a good part of a second at least, so the engine is asked less often, since each question is work for it, too.
   */
  reads(
    path: string,
    isWanted: (answer: string) => boolean,
    withinMs: number,
    options?: { isLong?: boolean },
  ): Promise<number>;
}

/** Between two questions. Shorter than a timer of Node can be, and without using the processor. */
const GAP_MS = 0.2;
/** Answers beyond this are asked for less often. */
const SLOW_MS = 20;
const LONG_GAP_MS = 5;

export async function reader(engineUrl: string): Promise<Reader> {
  const { hostname, port } = new URL(engineUrl);
  const socket = connect(Number(port), hostname).setNoDelay(true);
  await once(socket, 'connect');
  const cell = new Int32Array(new SharedArrayBuffer(4));

  return {
    reads: async (path, isWanted, withinMs, { isLong = false } = {}) => {
      const startMs = performance.now();
      const question = Buffer.from(`GET /v1/data${path} HTTP/1.1\r\nhost: ${hostname}\r\n\r\n`);
      for (;;) {
        const askedMs = performance.now();
        const answer = await ask(socket, question);
        const nowMs = performance.now();
        if (isWanted(answer)) return nowMs;
        if (nowMs - startMs > withinMs)
          throw new Error(`${path} is not as wanted within ${withinMs} ms: ${answer.slice(0, 500)}`);
        if (isLong || nowMs - startMs > 1_000 || nowMs - askedMs > SLOW_MS) await sleep(LONG_GAP_MS);
        else Atomics.wait(cell, 0, 0, GAP_MS);
      }
    },
    [Symbol.asyncDispose]: async () => {
      socket.destroy();
      if (!socket.closed) await once(socket, 'close');
    },
  };
}

/** One answer with a content-length, as OPA gives small ones; larger ones are chunked and not for this reader. */
function ask(socket: Socket, question: Buffer): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    const end = (): void => {
      socket.off('data', onData);
      socket.off('close', onClose);
    };
    const onData = (chunk: Buffer): void => {
      text += chunk.toString('latin1');
      const headEnd = text.indexOf('\r\n\r\n');
      if (headEnd < 0) return;
      const length = /\r\ncontent-length: (\d+)/i.exec(text)?.[1];
      if (length === undefined) {
        end();
        reject(new Error('an answer without a length'));
      } else if (text.length >= headEnd + 4 + Number(length)) {
        end();
        resolve(text.slice(headEnd + 4));
      }
    };
    const onClose = (): void => {
      end();
      reject(new Error('the engine has closed the connection'));
    };
    socket.on('data', onData);
    socket.once('close', onClose);
    socket.write(question);
  });
}
