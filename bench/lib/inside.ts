import { once } from 'node:events';
import { request } from 'undici';
import { WebSocket } from 'ws';

/** Looks into a process of Node by its inspector, so that nothing for it has to run in there. `await using` disconnects. */
export interface Inside extends AsyncDisposable {
  /** Bytes that live in the heap of its main thread, after a full collection. */
  heapBytes(): Promise<number>;
}

/** An argument that makes Node open its inspector at a port of 127.0.0.1. */
export function inspectedAt(port: number): string {
  return `--inspect=127.0.0.1:${port}`;
}

/** Connects to the process that was started with {@link inspectedAt}. */
export async function inside(port: number): Promise<Inside> {
  const { body } = await request(`http://127.0.0.1:${port}/json/list`);
  const [target] = (await body.json()) as { webSocketDebuggerUrl: string }[];
  if (target === undefined) throw new Error(`nothing to inspect at port ${port}`);
  const socket = new WebSocket(target.webSocketDebuggerUrl);
  await once(socket, 'open');
  let calls = 0;

  async function call(method: string, params: object = {}): Promise<Record<string, unknown>> {
    const id = ++calls;
    socket.send(JSON.stringify({ id, method, params }));
    for (;;) {
      const [text] = (await once(socket, 'message')) as [Buffer];
      const answer = JSON.parse(text.toString()) as { id?: number; error?: { message: string }; result?: object };
      if (answer.id !== id) continue; // an event
      if (answer.error !== undefined) throw new Error(`${method}: ${answer.error.message}`);
      return { ...answer.result };
    }
  }

  return {
    heapBytes: async () => {
      // Twice: what has a finalizer is gone after it has run.
      await call('HeapProfiler.collectGarbage');
      await call('HeapProfiler.collectGarbage');
      return Number((await call('Runtime.getHeapUsage')).usedSize);
    },
    [Symbol.asyncDispose]: async () => {
      const closed = once(socket, 'close');
      socket.terminate();
      await closed;
    },
  };
}
