import { once } from 'node:events';
import { connect } from 'node:net';
import { closeOf } from './close-of.js';

/** A caller that sends its request a byte at a time. `await using` cuts it off. */
export interface TrickleRequest extends AsyncDisposable {
  /** Bytes of the body that were sent. */
  readonly sentBytes: number;
  /** Nothing was answered, and the connection is there. */
  readonly isOpen: boolean;
  /** Sends the rest at once and answers what comes back. */
  finish(): Promise<string>;
}

/** Starts to POST `body` as JSON, one byte every `everyMs`; the headers go at once. */
export async function trickleRequest(url: string, body: string, everyMs: number): Promise<TrickleRequest> {
  const { hostname, port, pathname, host } = new URL(url);
  const bytes = Buffer.from(body);
  const socket = connect({ port: Number(port), host: hostname, noDelay: true });
  socket.on('error', () => undefined); // shows as the end of the connection
  let answer = '';
  let sentBytes = 0;
  socket.setEncoding('utf8').on('data', (text: string) => {
    answer += text;
  });
  await once(socket, 'connect');
  socket.write(
    `POST ${pathname} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${bytes.length}\r\n\r\n`,
  );
  // The last byte is only sent by finish().
  const timer = setInterval(() => {
    if (sentBytes < bytes.length - 1) socket.write(bytes.subarray(sentBytes, ++sentBytes));
  }, everyMs);
  return {
    get sentBytes() {
      return sentBytes;
    },
    get isOpen() {
      return answer === '' && !socket.destroyed;
    },
    finish: async () => {
      clearInterval(timer);
      const closed = closeOf(socket);
      socket.write(bytes.subarray(sentBytes));
      await closed;
      return answer;
    },
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer);
      const closed = closeOf(socket);
      socket.destroy();
      await closed;
    },
  };
}
