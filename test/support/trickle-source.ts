import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

/**
 * How a bad source treats its callers. mute: takes the request and never answers; headers: sends the headers of a good
 * answer and no more; trickle: then sends one byte a second, for ever.
 */
export type BadManners = 'mute' | 'headers' | 'trickle';

/** A data source that never comes to an end. `await using` stops it. */
export interface TrickleSource extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`: a host of its own for whoever counts by host. */
  readonly url: string;
  /** Requests that it has now. */
  readonly open: number;
  /** Most requests that it had at one time. */
  readonly mostOpen: number;
  /** Requests so far. */
  readonly count: number;
  /** From now on it answers `[1]` at once. */
  heal(): void;
}

const TRICKLE_MS = 1000;
const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n';
const GOOD = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 3\r\nconnection: close\r\n\r\n[1]';

/** Starts a {@link TrickleSource}. */
export async function trickleSource(manners: BadManners): Promise<TrickleSource> {
  const all = new Set<Socket>();
  /** Connections with a request. */
  const open = new Set<Socket>();
  let mostOpen = 0;
  let count = 0;
  let isWell = false;
  const server = createServer((socket) => {
    all.add(socket);
    let timer: NodeJS.Timeout | undefined;
    socket.on('error', () => socket.destroy()); // callers give up: that is what this is for
    socket.on('close', () => {
      clearInterval(timer);
      all.delete(socket);
      open.delete(socket);
    });
    socket.once('data', () => {
      count++;
      if (isWell) {
        socket.end(GOOD);
        return;
      }
      open.add(socket);
      mostOpen = Math.max(mostOpen, open.size);
      if (manners === 'mute') return;
      socket.write(HEAD);
      if (manners === 'trickle') timer = setInterval(() => socket.write(' '), TRICKLE_MS);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get open() {
      return open.size;
    },
    get mostOpen() {
      return mostOpen;
    },
    get count() {
      return count;
    },
    heal: () => {
      isWell = true;
    },
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, 'close');
      server.close();
      for (const socket of all) socket.destroy();
      await closed;
    },
  };
}
