import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';
import { hexId } from '../../src/lib/run/hex-id.js';
import { PROTOCOL_HEADER, PROTOCOL_VERSION } from '../../src/wire/frames.js';
import { field } from './http.js';

/** One update of a {@link FakeSessionServer}'s log. */
interface Logged {
  readonly seq: number;
  readonly topics: readonly string[];
  readonly entries: readonly object[];
  readonly prev: Readonly<Record<string, number>>;
}

/**
 * A server that speaks with our clients as ours does (wire/session.ts, wire/catch-up-page.ts), and does what no real one would
 * when a test says so: it loses notices, forgets its log, asks for patience. Data only, no policy.
 */
export interface FakeSessionServer extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`. */
  readonly url: string;
  /** Names its log; a test that sets another one makes it another log. */
  epoch: string;
  heartbeatSeconds: number;
  spreadMs: number;
  /** Entries of `?origin=base`; undefined is answered 503. */
  base: readonly object[] | undefined;
  /** Positions before this have no tail: they are answered by fold. */
  tailFrom: number;
  /** Updates of one page. */
  pageLimit: number;
  /** `/data/updates` is answered after this. */
  updatesAfter: Promise<unknown>;
  /** Called when a client has subscribed, before it is told so: what is published here reaches it first. */
  beforeAnswer: (() => void) | undefined;
  /** Records an update and notifies it, unless it is to be `lost`; answers its seq. */
  publish(entries: readonly object[], how?: { lost?: boolean }): number;
  /** Forgets all updates, or all after a seq. */
  forget(after?: number): void;
  /** Takes one update out of the log, as nobody ever should. */
  remove(seq: number): void;
  /** Ends all connections. */
  drop(): void;
  /** Requests so far: path and query. */
  readonly requests: readonly string[];
  /** Arguments of each `subscribe`, and of each `report`. */
  readonly subscriptions: readonly unknown[];
  readonly reports: readonly unknown[];
  /** Codes by which clients have closed their connections. */
  readonly closes: readonly number[];
}

/** Starts a {@link FakeSessionServer} with an empty log. */
export async function startFakeSessionServer(): Promise<FakeSessionServer> {
  let log: Logged[] = [];
  let head = 0;
  const connections = new Map<WebSocket, Set<string>>();
  const requests: string[] = [];
  const subscriptions: unknown[] = [];
  const reports: unknown[] = [];
  const closes: number[] = [];

  const http = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://fake');
    requests.push(url.pathname + url.search);
    const send = (status: number, body: unknown): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
    if (url.pathname === '/data/config') {
      const { base, epoch } = fake;
      const entries = (base ?? []).map((entry) => ({ topics: ['policy_data'], seq: 0, origin: 'base', ...entry }));
      if (base === undefined) send(503, { detail: 'not now' });
      else send(200, { entries, epoch, head, base_set: true });
    } else if (url.pathname === '/data/updates') void fake.updatesAfter.then(() => send(200, page(url.searchParams)));
    else send(404, { detail: 'Not Found' });
  });

  function page(query: URLSearchParams): object {
    const known = query.get('epoch') === fake.epoch ? Number(query.get('after')) : 0;
    const goesOn = query.get('from') === 'fold';
    const topics = query.get('topics')?.split(',') ?? [];
    const isFold = goesOn || known < fake.tailFrom;
    const after = isFold && !goesOn ? 0 : known;
    const mine = log.filter((record) => record.topics.some((topic) => topics.includes(topic)));
    const live = isFold ? mine.filter((record) => !isSuperseded(record, mine)) : mine;
    const rest = live.filter(({ seq }) => seq > after);
    const updates = rest.slice(0, fake.pageLimit).map(({ seq, entries, prev }) => ({
      id: `u${seq}`,
      seq,
      time: new Date(0).toISOString(),
      reason: 'test',
      entries,
      callback: { callbacks: [] },
      prev,
    }));
    const from = isFold ? 'fold' : 'tail';
    return { epoch: fake.epoch, head, from, more: rest.length > updates.length, heads: heads(topics), updates };
  }

  function heads(topics: readonly string[]): Record<string, number> {
    return Object.fromEntries(topics.map((topic) => [topic, last(topic)]));
  }

  function last(topic: string): number {
    return log.findLast(({ topics }) => topics.includes(topic))?.seq ?? 0;
  }

  const sockets = new WebSocketServer({ server: http, path: '/ws' });
  sockets.on('headers', (lines) => lines.push(`${PROTOCOL_HEADER}: ${PROTOCOL_VERSION}`));
  sockets.on('connection', (ws) => {
    const topics = new Set<string>();
    connections.set(ws, topics);
    const beat = setInterval(
      () => {
        const args = { epoch: fake.epoch, heads: heads([...topics]), policy_head: null };
        ws.send(
          JSON.stringify({ request: { method: 'heartbeat', arguments: args, call_id: hexId() }, response: null }),
        );
      },
      Math.max(10, fake.heartbeatSeconds * 1000),
    );
    ws.on('close', (code) => {
      closes.push(code);
      clearInterval(beat);
      connections.delete(ws);
    });
    ws.on('error', () => ws.terminate());
    ws.on('message', (data) => answer(ws, topics, JSON.parse(String(data))));
  });

  function answer(ws: WebSocket, topics: Set<string>, frame: unknown): void {
    const reply = (result: unknown): void => {
      const call_id = field(frame, 'request', 'call_id') ?? null;
      ws.send(JSON.stringify({ request: null, response: { result, result_type: null, call_id } }));
    };
    const args = field(frame, 'request', 'arguments');
    switch (field(frame, 'request', 'method')) {
      case '_ping_':
        reply('pong');
        break;
      case 'subscribe': {
        const asked = field(args, 'topics');
        for (const topic of Array.isArray(asked) ? asked : []) topics.add(String(topic));
        subscriptions.push(args);
        const through = field(args, 'position', 'applied_through');
        const resumes = field(args, 'position', 'epoch') === fake.epoch && Number(through) <= head;
        fake.beforeAnswer?.();
        reply({
          accepted: true,
          epoch: fake.epoch,
          head,
          resumes,
          heads: heads([...topics]),
          policy_head: null,
          heartbeat_seconds: fake.heartbeatSeconds,
          spread_ms: fake.spreadMs,
        });
        break;
      }
      case 'report':
        reports.push(args);
        reply(true);
        break;
    }
  }

  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  const fake: FakeSessionServer = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    epoch: 'one',
    heartbeatSeconds: 60,
    spreadMs: 0,
    base: [],
    tailFrom: 0,
    pageLimit: 1000,
    updatesAfter: Promise.resolve(),
    beforeAnswer: undefined,
    requests,
    subscriptions,
    reports,
    closes,
    publish: (given, { lost = false } = {}) => {
      const entries = given.map((entry) => ({ url: '', topics: ['policy_data'], save_method: 'PUT', ...entry }));
      const topics = [...new Set(entries.flatMap((entry) => entry.topics))];
      const seq = ++head;
      const prev = heads(topics);
      log.push({ seq, topics, entries, prev });
      if (lost) return seq;
      const data = {
        id: `u${seq}`,
        entries,
        reason: 'test',
        callback: { callbacks: [] },
        seq,
        epoch: fake.epoch,
        prev,
      };
      for (const [ws, own] of connections) {
        const topic = topics.find((name) => own.has(name));
        if (topic === undefined) continue;
        const subscription = { id: hexId(), subscriber_id: hexId(), topic, notifier_id: null };
        const request = { method: 'notify', arguments: { subscription, data }, call_id: hexId() };
        ws.send(JSON.stringify({ request, response: null }));
      }
      return seq;
    },
    forget: (after = 0) => {
      log = log.filter(({ seq }) => seq <= after);
      head = after;
    },
    remove: (seq) => {
      log = log.filter((record) => record.seq !== seq);
    },
    drop: () => {
      for (const ws of connections.keys()) ws.terminate();
    },
    [Symbol.asyncDispose]: async () => {
      fake.drop();
      sockets.close();
      http.close();
      http.closeAllConnections();
      await once(http, 'close');
    },
  };
  return fake;
}

/** True when a later update writes the very paths of this one: as much of a fold as these tests need. */
function isSuperseded(record: Logged, log: readonly Logged[]): boolean {
  const path = (entry: object): unknown => field(entry, 'dst_path');
  return record.entries.every((entry) =>
    log.some(({ seq, entries }) => seq > record.seq && entries.some((other) => path(other) === path(entry))),
  );
}
