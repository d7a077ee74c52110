import { createServer } from 'node:http';
import { type WebSocket, WebSocketServer } from 'ws';
import { hexId } from '../../src/lib/run/hex-id.js';
import { field } from './http.js';
import { listening } from './http-server.js';

/**
 * A server that behaves as OPAL's does towards a client (opal-protocol P1.3 to P1.9, P2.2, P2.3): it knows no extension,
 * drops a connection on anything that it does not know, and waits for the answer to each notification.
 */
export interface FakeOpal extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`. */
  readonly url: string;
  /** Answer of GET /policy by `base_hash` (none: ''); undefined is answered 503, as while the first clone runs. */
  policy: (baseHash: string) => object | undefined;
  /** Entries that GET /data/config answers. */
  entries: readonly object[];
  /** Requests so far: path and query. */
  readonly requests: readonly string[];
  /** Topics of the open connections. */
  topics(): string[];
  /** Publishes: one notification per topic, the data written anew for each; settles when all have been answered. */
  notify(topics: readonly string[], data: unknown): Promise<void>;
  /** Ends all connections, as at a restart. */
  drop(): void;
  /** What a client did that OPAL's server does not know. */
  readonly complaints: readonly string[];
}

interface Connection {
  readonly ws: WebSocket;
  readonly topics: Set<string>;
  readonly answers: Map<string, (result: unknown) => void>;
}

/** Starts a {@link FakeOpal} without policy and data. */
export async function startFakeOpal(): Promise<FakeOpal> {
  const connections = new Set<Connection>();
  const requests: string[] = [];
  const complaints: string[] = [];
  const http = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://opal');
    requests.push(url.pathname + url.search);
    const send = (status: number, body: unknown): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
    if (url.pathname === '/data/config')
      send(200, request.method === 'POST' ? { status: 'ok' } : { entries: opal.entries });
    else if (url.pathname === '/policy') {
      const bundle = opal.policy(url.searchParams.get('base_hash') ?? '');
      if (bundle === undefined) send(503, { detail: 'policy repo is not ready' });
      else send(200, bundle);
    } else send(404, { detail: 'Not Found' });
  });
  const sockets = new WebSocketServer({ server: http, path: '/ws' });
  sockets.on('connection', (ws) => {
    const connection: Connection = { ws, topics: new Set(), answers: new Map() };
    connections.add(connection);
    ws.on('close', () => connections.delete(connection));
    ws.on('error', () => ws.terminate());
    ws.on('message', (data) => receive(connection, String(data)));
    // With statistics on, this is the first frame to every client (opal-protocol P1.6).
    call(connection, '_get_channel_id_', {}).then(
      (id) => {
        if (!/^[0-9a-f]{32}$/.test(String(id))) complaints.push(`channel id ${JSON.stringify(id)}`);
      },
      (error: unknown) => complaints.push(String(error)),
    );
  });

  function receive(connection: Connection, text: string): void {
    const frame: unknown = JSON.parse(text);
    const response = field(frame, 'response');
    if (response !== null && response !== undefined) {
      connection.answers.get(String(field(response, 'call_id')))?.(field(response, 'result'));
    }
    const method = field(frame, 'request', 'method');
    if (method === undefined) return;
    const reply = (result: unknown, type: string): void => {
      const call_id = field(frame, 'request', 'call_id') ?? null;
      connection.ws.send(JSON.stringify({ request: null, response: { result, result_type: type, call_id } }));
    };
    const topics = field(frame, 'request', 'arguments', 'topics');
    if (method === '_ping_') reply('pong', 'str');
    else if (method === 'subscribe' && Array.isArray(topics)) {
      for (const topic of topics) connection.topics.add(String(topic));
      reply(true, 'bool');
    } else {
      complaints.push(`unknown: ${text}`);
      connection.ws.close(1000);
    }
  }

  function call({ ws, answers }: Connection, method: string, args: object): Promise<unknown> {
    const id = hexId();
    return new Promise((resolve, reject) => {
      answers.set(id, resolve);
      ws.once('close', () => reject(new Error(`no answer to ${method} before the connection ended`)));
      ws.send(JSON.stringify({ request: { method, arguments: args, call_id: id }, response: null }));
    });
  }

  const listener = await listening(http);
  const opal: FakeOpal = {
    url: listener.url,
    policy: () => undefined,
    entries: [],
    requests,
    complaints,
    topics: () => [...connections].flatMap(({ topics }) => [...topics]),
    notify: async (topics, data) => {
      for (const topic of topics) {
        for (const connection of [...connections].filter((other) => other.topics.has(topic))) {
          const subscription = { id: hexId(), subscriber_id: hexId(), topic, notifier_id: null };
          await call(connection, 'notify', { subscription, data });
        }
      }
    },
    drop: () => {
      for (const { ws } of connections) ws.close(1012);
    },
    [Symbol.asyncDispose]: async () => {
      for (const { ws } of connections) ws.terminate();
      sockets.close();
      await listener[Symbol.asyncDispose]();
    },
  };
  return opal;
}
