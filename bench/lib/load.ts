import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** The same question over and over on some connections: a GET, or with bodies a POST. */
export interface LoadOptions {
  /** URL with path and query. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON bodies that each connection sends in turn. */
  readonly bodies?: readonly string[];
  readonly connections: number;
  /** Of each answer; another one is a failure. */
  readonly status: number;
  /** How many times, and how long each, the answers are counted. */
  readonly slices: number;
  readonly sliceMs: number;
}

/** What came of a load. */
export interface Load {
  /** Whole answers per second, for each slice. */
  readonly perSecond: readonly number[];
  readonly answers: number;
}

/**
 * Counts answers cheaply, bodies are not kept: what is measured is the server. An answer has a length, or is a 304.
 */
export async function load(options: LoadOptions): Promise<Load> {
  const { hostname, port, pathname, search } = new URL(options.url);
  const lines = Object.entries(options.headers ?? {}).map(([name, value]) => `${name}: ${value}\r\n`);
  const request = (method: string, more: string): Buffer =>
    Buffer.from(`${method} ${pathname}${search} HTTP/1.1\r\nhost: ${hostname}\r\n${lines.join('')}${more}`);
  const posts = options.bodies?.map((body) =>
    request('POST', `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`),
  );
  const questions = posts ?? [request('GET', '\r\n')];
  let answers = 0;
  const asking = await Promise.all(
    Array.from({ length: options.connections }, async () => {
      const socket = connect(Number(port), hostname).setNoDelay(true);
      await once(socket, 'connect');
      return askOver(socket, questions, options.status, () => answers++);
    }),
  );
  try {
    const perSecond: number[] = [];
    for (let slice = 0; slice < options.slices; slice++) {
      const startMs = performance.now();
      const before = answers;
      await Promise.race([
        new Promise((resolve) => setTimeout(resolve, options.sliceMs)),
        ...asking.map((one) => one.failed),
      ]);
      perSecond.push(((answers - before) * 1000) / (performance.now() - startMs));
    }
    return { perSecond, answers };
  } finally {
    for (const one of asking) one.end();
  }
}

/** Asks again as soon as the answer is whole. */
function askOver(
  socket: Socket,
  questions: readonly Buffer[],
  status: number,
  onAnswer: () => void,
): { failed: Promise<never>; end(): void } {
  let asked = 0;
  const ask = (): void => {
    const question = questions[asked++ % questions.length];
    if (question !== undefined) socket.write(question);
  };
  const state = { head: '', bodyLeft: 0, inBody: false, ended: false };
  const failed = new Promise<never>((_, reject) => {
    const take = (chunk: Buffer): void => {
      let rest = chunk;
      while (rest.length > 0) {
        if (!state.inBody) {
          const before = state.head.length;
          state.head += rest.toString('latin1');
          const end = state.head.indexOf('\r\n\r\n');
          if (end < 0) return;
          const length = /\r\ncontent-length: (\d+)/i.exec(state.head)?.[1];
          const isEmpty = state.head.startsWith('HTTP/1.1 304');
          if (!state.head.startsWith(`HTTP/1.1 ${status}`) || (length === undefined && !isEmpty)) {
            reject(new Error(`not answered ${status} with a length: ${state.head.slice(0, 200)}`));
            return;
          }
          rest = rest.subarray(end + 4 - before);
          state.head = '';
          state.bodyLeft = isEmpty ? 0 : Number(length);
          state.inBody = true;
        }
        const taken = Math.min(rest.length, state.bodyLeft);
        state.bodyLeft -= taken;
        rest = rest.subarray(taken);
        if (state.bodyLeft > 0) return;
        state.inBody = false;
        onAnswer();
        ask();
      }
    };
    socket.on('data', take);
    socket.on('error', reject);
    socket.on('close', () => {
      if (!state.ended) reject(new Error('the server has closed the connection'));
    });
  });
  failed.catch(() => undefined); // looked at by the race, which may be over
  ask();
  return {
    failed,
    end: () => {
      state.ended = true;
      socket.destroy();
    },
  };
}
