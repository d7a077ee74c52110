import { once } from 'node:events';
import { WebSocket } from 'ws';
import { field } from './http.js';
import { until } from './until.js';

/** A client of ours as the server sees it, without an engine: it reports what it is told to. `await using` cuts its connection. */
export interface FleetPeer extends AsyncDisposable {
  readonly socket: WebSocket;
  /** Seqs of the updates that it heard of. */
  readonly seqs: readonly number[];
  /** Subscribes to more topics. */
  subscribe(topics: readonly string[]): Promise<void>;
  /** Reports, with these members in place of those of a client that holds nothing. */
  report(members?: object): void;
  /** Reports that it holds this commit, and all updates up to `through`. */
  holds(commit: string | null, through?: number): void;
}

const TOPICS = ['policy_data', 'default:policy:.'];

/** Connects one. `more`: members of its `subscribe`. */
export async function fleetPeer(
  serverUrl: string,
  id: string,
  {
    topics = TOPICS,
    headers = {},
    more = {},
  }: { topics?: string[]; headers?: Record<string, string>; more?: object } = {},
): Promise<FleetPeer> {
  const socket = new WebSocket(`${serverUrl.replace(/^http/, 'ws')}/ws`, {
    headers: { 'x-sync-protocol': '2', ...headers },
  });
  const seqs: number[] = [];
  let answer: unknown;
  let answers = 0;
  socket.on('error', () => undefined); // it is cut with the server: the test says when
  socket.on('message', (text) => {
    const frame: unknown = JSON.parse(String(text));
    if (field(frame, 'response', 'call_id') === 'subscribe') {
      answer = field(frame, 'response', 'result');
      answers++;
    }
    const seq = field(frame, 'request', 'arguments', 'data', 'seq');
    if (typeof seq === 'number') seqs.push(seq);
  });
  await once(socket, 'open');
  const send = (method: string, args: object): void => {
    socket.send(JSON.stringify({ request: { method, arguments: args, call_id: method }, response: null }));
  };
  send('subscribe', { topics, client_id: id, ...more });
  await until(() => answer !== undefined, { withinMs: 20_000, what: 'an answer to subscribe' });
  const epoch = String(field(answer, 'epoch'));
  const report = (members: object = {}): void =>
    send('report', {
      client_id: id,
      position: { epoch, applied_through: 0 },
      policy_hash: null,
      ready: true,
      healthy: true,
      engine: { kind: 'opa', version: '1.22.0', online: true },
      failing: [],
      blocked: [],
      since: 0,
      ...members,
    });
  return {
    socket,
    seqs,
    subscribe: async (more) => {
      const before = answers;
      send('subscribe', { topics: more, client_id: id });
      await until(() => answers > before, { withinMs: 20_000, what: 'an answer to subscribe' });
    },
    report,
    holds: (commit, through = 0) =>
      report({
        position: { epoch, applied_through: through },
        policy_hash: commit,
        policy: { wanted: commit, held: commit, error: null, since: 1 },
      }),
    [Symbol.asyncDispose]: async () => {
      if (socket.readyState === WebSocket.CLOSED) return;
      const closed = once(socket, 'close');
      socket.terminate();
      await closed;
    },
  };
}
