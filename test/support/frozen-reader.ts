import { once } from 'node:events';
import { connect } from 'node:net';
import { closeOf } from './close-of.js';

/** A caller that asks for an answer and takes only the first bytes of it. `await using` ends it. */
export interface FrozenReader extends AsyncDisposable {
  /** Start of the answer, its headers among it. */
  readonly head: string;
  /** Bytes of the answer that it took, headers included. */
  readonly takenBytes: number;
  readonly ended: boolean;
  /** Takes the rest, and answers how many bytes there were in all; `everyMs` and `chunkBytes` slow it down. */
  rest(speed?: { everyMs: number; chunkBytes: number }): Promise<number>;
}

/** Asks with GET, and returns when the answer has begun; nothing more is read then. */
export async function frozenReader(url: string, headers: Record<string, string> = {}): Promise<FrozenReader> {
  const { hostname, port, pathname, search, host } = new URL(url);
  const socket = connect({ port: Number(port), host: hostname });
  socket.on('error', () => undefined); // being cut off is what this is for
  let takenBytes = 0;
  let head = '';
  socket.on('data', (chunk: Buffer) => {
    takenBytes += chunk.length;
    if (head.length < 1000) head += chunk.toString('latin1', 0, 1000);
  });
  const lines = Object.entries({ host, connection: 'close', ...headers }).map(([name, value]) => `${name}: ${value}`);
  await once(socket, 'connect');
  socket.write(`GET ${pathname}${search} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
  await once(socket, 'data');
  socket.pause();
  return {
    get head() {
      return head;
    },
    get takenBytes() {
      return takenBytes;
    },
    get ended() {
      return socket.destroyed;
    },
    rest: async (speed) => {
      const closed = closeOf(socket);
      if (speed === undefined) socket.resume();
      else slowDown(speed);
      await closed;
      return takenBytes;
    },
    [Symbol.asyncDispose]: async () => {
      const closed = closeOf(socket);
      socket.destroy();
      await closed;
    },
  };

  /** Reads about `chunkBytes`, rests, and goes on. */
  function slowDown({ everyMs, chunkBytes }: { everyMs: number; chunkBytes: number }): void {
    let pausedAt = takenBytes;
    socket.on('data', () => {
      if (takenBytes - pausedAt < chunkBytes) return;
      pausedAt = takenBytes;
      socket.pause();
      setTimeout(() => socket.resume(), everyMs);
    });
    socket.resume();
  }
}
