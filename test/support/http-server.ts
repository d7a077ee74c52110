import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** An HTTP server that listens on 127.0.0.1. `await using` stops it and ends its connections. */
export interface ListeningServer extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`, no slash at the end. */
  readonly url: string;
  readonly port: number;
}

/**
 * Has a server listen; `port` 0 is a free one. Sockets that it has handed out (upgrades, CONNECT) are the handler's to end:
 * the stop waits for them.
 */
export async function listening(server: Server, port = 0): Promise<ListeningServer> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const { port: actual } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${actual}`,
    port: actual,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
