import { once } from 'node:events';
import { WebSocket } from 'ws';
import type { SessionReport } from '../../../src/wire/session.js';
import { field, request } from '../../support/http.js';
import { WELL } from '../../support/session-report.js';

/** Many clients that speak the protocol and have no engine. `await using` ends them. */
export interface Peers extends AsyncDisposable {
  readonly ids: readonly string[];
  /** Reports of the clients at `places`; what is missing is well. */
  report(places: Iterable<number>, state: Partial<SessionReport>): Promise<void>;
}

export interface PeersOptions {
  readonly count: number;
  readonly topics: readonly string[] | ((place: number) => readonly string[]);
  readonly labels?: (place: number) => Readonly<Record<string, string>>;
  /** Of a client, for servers with authentication. */
  readonly token?: string;
}

const AT_A_TIME = 100;

/** Connects clients of our protocol, some at a time. */
export async function startPeers(url: string, { count, topics, labels, token }: PeersOptions): Promise<Peers> {
  const headers = { 'x-sync-protocol': '2', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) };
  const ids = Array.from({ length: count }, (_, place) => `peer-${String(place).padStart(4, '0')}`);
  const sockets: WebSocket[] = [];
  async function connect(id: string, place: number): Promise<void> {
    const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/ws`, { headers, perMessageDeflate: false });
    sockets[place] = socket;
    await once(socket, 'open');
    socket.on('error', () => socket.terminate());
    const own = typeof topics === 'function' ? topics(place) : topics;
    await call(socket, 'subscribe', { topics: own, client_id: id, labels: labels?.(place) ?? {} });
  }
  for (let from = 0; from < count; from += AT_A_TIME)
    await Promise.all(ids.slice(from, from + AT_A_TIME).map((id, index) => connect(id, from + index)));
  return {
    ids,
    async report(places, state) {
      const all = [...places];
      for (let from = 0; from < all.length; from += AT_A_TIME) {
        const some = all.slice(from, from + AT_A_TIME);
        await Promise.all(
          some.map(async (place) => {
            const socket = sockets[place];
            if (socket === undefined) throw new Error(`there is no client ${place}`);
            const client_id = ids[place];
            const said = { ...WELL, position: null, since: Date.now(), ...state, client_id };
            const isTaken = await call(socket, 'report', said);
            if (isTaken !== true)
              throw new Error(`the server did not take ${JSON.stringify(said)}: ${JSON.stringify(isTaken)}`);
          }),
        );
      }
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(
        sockets.map(async (socket) => {
          if (socket.readyState === WebSocket.CLOSED) return;
          const closed = once(socket, 'close');
          socket.terminate();
          await closed;
        }),
      );
    },
  };
}

let calls = 0;

/** Calls a method and waits for its answer; whatever else the server says meanwhile is of no interest. */
async function call(socket: WebSocket, method: string, args: object): Promise<unknown> {
  calls += 1;
  const id = `call-${calls}`;
  const answered = new Promise<unknown>((resolve, reject) => {
    const hear = (data: unknown): void => {
      const text = String(data);
      if (!text.includes(id)) return;
      stop();
      resolve(field(JSON.parse(text), 'response', 'result'));
    };
    const end = (): void => {
      stop();
      reject(new Error(`the socket closed before ${method} was answered`));
    };
    const stop = (): void => {
      socket.off('message', hear);
      socket.off('close', end);
    };
    socket.on('message', hear);
    socket.on('close', end);
  });
  socket.send(JSON.stringify({ request: { method, arguments: args, call_id: id }, response: null }));
  return await answered;
}

/** The position at the head of the log of a server. */
export async function headPosition(
  url: string,
  headers: Record<string, string> = {},
): Promise<SessionReport['position']> {
  const { json } = await request(`${url}/clients?limit=1`, { headers });
  return {
    epoch: String(field(json, 'epoch')),
    applied_through: Number(field(json, 'head')),
    applied_beyond: [],
    unresolved: [],
  };
}
