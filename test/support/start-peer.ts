import { once } from 'node:events';
import { WebSocket } from 'ws';
import { field } from './http.js';
import { until } from './until.js';

/** A bare pub/sub peer that keeps every frame that it receives. `await using` cuts its connection. */
export interface StartedPeer extends AsyncDisposable {
  readonly socket: WebSocket;
  /** All frames so far, in order. */
  readonly frames: readonly unknown[];
  /** Calls a method and gives the result. */
  call(method: string, args: object): Promise<unknown>;
  /** Waits for `count` notifications and gives the data of all so far, in order. */
  notified(count: number): Promise<unknown[]>;
}

/** The data of a notification frame; undefined for every other frame. */
export function notifiedData(frame: unknown): unknown {
  return field(frame, 'request', 'arguments', 'data');
}

/** Connects to the socket of a server; `headers` go with the upgrade. */
export async function startPeer(serverUrl: string, headers: Record<string, string> = {}): Promise<StartedPeer> {
  const socket = new WebSocket(`${serverUrl.replace(/^http/, 'ws')}/ws`, { headers });
  const frames: unknown[] = [];
  let calls = 0;
  socket.on('message', (data) => frames.push(JSON.parse(String(data))));
  await once(socket, 'open');
  return {
    socket,
    frames,
    call: async (method, args) => {
      const id = `call-${++calls}`;
      socket.send(JSON.stringify({ request: { method, arguments: args, call_id: id }, response: null }));
      const answer = (): unknown => frames.find((frame) => field(frame, 'response', 'call_id') === id);
      // After its close nothing more comes.
      await until(() => answer() !== undefined || socket.readyState === WebSocket.CLOSED, {
        withinMs: 20_000,
        what: `an answer to ${method}`,
      });
      if (answer() === undefined) throw new Error(`the connection was closed before an answer to ${method}`);
      return field(answer(), 'response', 'result');
    },
    notified: (count) => {
      const all = () => frames.map(notifiedData).filter((data) => data !== undefined);
      return until(() => all().length >= count && all(), { withinMs: 20_000, what: `${count} notifications` });
    },
    [Symbol.asyncDispose]: async () => {
      if (socket.readyState === WebSocket.CLOSED) return;
      const closed = once(socket, 'close');
      socket.terminate();
      await closed;
    },
  };
}
