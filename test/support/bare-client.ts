import { once } from 'node:events';
import { WebSocket } from 'ws';
import { field, request } from './http.js';
import { until } from './until.js';

/**
 * A client of ours without an engine: subscribes with a position, catches up by it, reports what it has "applied", and writes down
 * what it was told. Costs nothing, so that a test can have several. `await using` ends it.
 */
export interface BareClient extends AsyncDisposable {
  /** Seqs of the updates that it has, in the order in which it got them. */
  readonly seqs: readonly number[];
  /** Policy commits that it was told of. */
  readonly commits: readonly string[];
  /** Answers of its subscriptions. */
  readonly answers: readonly unknown[];
  /** Ends the connection; {@link connect} leads to the same or another server. */
  cut(): void;
  connect(serverUrl: string): Promise<void>;
}

/** Makes one that has not connected yet. */
export function bareClient(clientId: string, topics: readonly string[]): BareClient {
  const seqs: number[] = [];
  const commits: string[] = [];
  const answers: unknown[] = [];
  let socket: WebSocket | undefined;
  let epoch: string | undefined;

  const through = (): number => Math.max(0, ...seqs);
  function take(seq: number): void {
    if (!seqs.includes(seq)) seqs.push(seq);
  }
  const position = (): object | undefined =>
    epoch === undefined ? undefined : { epoch, applied_through: through(), applied_beyond: [], unresolved: [] };

  function report(to: WebSocket): void {
    const args = {
      client_id: clientId,
      position: position() ?? null,
      policy_hash: null,
      ready: true,
      healthy: true,
      engine: { kind: 'none', version: null, online: true },
      since: 0,
    };
    if (to.readyState !== WebSocket.OPEN) return;
    to.send(JSON.stringify({ request: { method: 'report', arguments: args, call_id: 'report' }, response: null }));
  }

  /** What came between its position and now. */
  async function catchUp(serverUrl: string): Promise<void> {
    for (;;) {
      const query = new URLSearchParams({ epoch: epoch ?? '', after: String(through()), topics: topics.join(',') });
      const { json } = await request(`${serverUrl}/data/updates?${query}`);
      const updates = field(json, 'updates');
      if (!Array.isArray(updates)) throw new Error(`no page of updates: ${JSON.stringify(json)}`);
      for (const update of updates) take(Number(field(update, 'seq')));
      if (field(json, 'more') !== true) return;
    }
  }

  return {
    seqs,
    commits,
    answers,
    cut: () => socket?.terminate(),
    connect: async (serverUrl) => {
      const own = new WebSocket(`${serverUrl.replace(/^http/, 'ws')}/ws`, { headers: { 'x-sync-protocol': '2' } });
      socket = own;
      own.on('error', () => undefined); // it is cut with the server: the test says when
      /** What comes while it catches up is taken afterwards, in order. */
      let held: number[] | undefined = [];
      let answer: unknown;
      own.on('message', (text) => {
        const frame: unknown = JSON.parse(String(text));
        if (field(frame, 'response', 'call_id') === 'subscribe') answer = field(frame, 'response', 'result');
        const data = field(frame, 'request', 'arguments', 'data');
        if (typeof data === 'string') commits.push(data);
        const seq = field(data, 'seq');
        if (typeof seq !== 'number') return;
        if (held === undefined) take(seq);
        else held.push(seq);
        report(own);
      });
      await once(own, 'open');
      const args = { topics: [...topics, 'default:policy:.'], client_id: clientId, position: position() };
      const call = { method: 'subscribe', arguments: args, call_id: 'subscribe' };
      own.send(JSON.stringify({ request: call, response: null }));
      await until(() => answer !== undefined, { withinMs: 20_000, what: 'an answer to subscribe' });
      answers.push(answer);
      if (field(answer, 'accepted') !== true) throw new Error(`refused: ${JSON.stringify(answer)}`);
      epoch = String(field(answer, 'epoch'));
      await catchUp(serverUrl);
      for (const seq of held) take(seq);
      held = undefined;
      report(own);
    },
    [Symbol.asyncDispose]: async () => {
      if (socket === undefined || socket.readyState === WebSocket.CLOSED) return;
      const closed = once(socket, 'close');
      socket.terminate();
      await closed;
    },
  };
}
