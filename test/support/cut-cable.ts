import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP connection that a test can break, between a client and a server. `await using` removes it. */
export interface Cable extends AsyncDisposable {
  /** Where the client connects to: `http://127.0.0.1:<port>`. */
  readonly url: string;
  /** The server that it leads to. */
  readonly target: string;
  /** Leads connections that are made from now on to another server. */
  connectTo(url: string): void;
  /** Ends all connections; new ones are ended at once, until {@link Cable.mend}. */
  cut(): void;
  /** Like {@link Cable.cut}, but what comes next on each connection is passed in part first: a frame, cut in its midst. */
  cutMidway(): void;
  /** Connections stay and new ones are taken, but nothing passes, until {@link Cable.mend}. */
  freeze(): void;
  /** Nothing passes on the connections that are open; new ones are whole. */
  freezeOpen(): void;
  /** Everything passes so much later, in order, until {@link Cable.mend}. */
  slow(ms: number): void;
  /** Lets everything pass, also what was held back. */
  mend(): void;
  /** Everything passes. */
  readonly isWhole: boolean;
  /** Open connections. */
  readonly connections: number;
}

/** A cable that leads to the server at `url`. */
export async function cutCable(url: string): Promise<Cable> {
  let target = new URL(url);
  let state: 'whole' | 'cut' | 'frozen' = 'whole';
  let delayMs = 0;
  const pairs = new Set<readonly [Socket, Socket]>();
  /** Those that end with what comes next. */
  const midway = new Map<readonly [Socket, Socket], 'next' | 'over'>();
  const server = createServer((near) => {
    near.on('error', () => near.destroy()); // broken connections are what this is for
    if (state === 'cut') {
      near.destroy();
      return;
    }
    const far = connect(Number(target.port), target.hostname);
    const pair = [near, far] as const;
    pairs.add(pair);
    for (const [from, to] of [pair, [far, near] as const]) {
      const late = lateWriter(to);
      from.on('data', (chunk) => {
        if (delayMs > 0 || late.isBehind()) {
          late.write(chunk, delayMs);
          return;
        }
        const ending = midway.get(pair);
        if (ending === undefined) to.write(chunk);
        if (ending !== 'next') return;
        midway.set(pair, 'over');
        to.write(chunk.subarray(0, Math.ceil(chunk.length / 2)), () => from.destroy());
      });
      from.on('end', () => late.end());
      from.on('error', () => from.destroy());
      from.on('close', () => {
        to.destroy();
        pairs.delete(pair);
        midway.delete(pair);
      });
      if (state === 'frozen') from.pause();
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  const cut = (): void => {
    state = 'cut';
    for (const socket of [...pairs].flat()) socket.destroy();
  };
  const freezeOpen = (): void => {
    for (const socket of [...pairs].flat()) socket.pause();
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get target() {
      return target.origin;
    },
    connectTo: (other) => {
      target = new URL(other);
    },
    cut,
    cutMidway: () => {
      state = 'cut';
      for (const pair of pairs) midway.set(pair, 'next');
    },
    freeze: () => {
      state = 'frozen';
      freezeOpen();
    },
    freezeOpen,
    slow: (ms) => {
      delayMs = ms;
    },
    mend: () => {
      state = 'whole';
      delayMs = 0;
      for (const socket of [...pairs].flat()) socket.resume();
    },
    get isWhole() {
      return state === 'whole';
    },
    get connections() {
      return pairs.size;
    },
    [Symbol.asyncDispose]: async () => {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Passes on to a socket what it is given, each part after its time and none before an earlier one. */
function lateWriter(to: Socket): {
  write(chunk: Buffer, ms: number): void;
  end(): void;
  isBehind(): boolean;
} {
  // Timers of different lengths may end in another order than they are due: each takes what has waited longest.
  const waiting: (() => void)[] = [];
  let dueMs = 0;
  const later = (ms: number, then: () => void): void => {
    dueMs = Math.max(dueMs, performance.now() + ms);
    waiting.push(then);
    setTimeout(() => waiting.shift()?.(), dueMs - performance.now());
  };
  return {
    write: (chunk, ms) => later(ms, () => void (to.destroyed || to.write(chunk))),
    end: () => (waiting.length === 0 ? void to.end() : later(0, () => void to.end())),
    isBehind: () => waiting.length > 0,
  };
}
