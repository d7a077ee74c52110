import { createReadStream, existsSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';
import { text } from 'node:stream/consumers';
import type * as z from 'zod';
import { UI_CSP } from '../../../src/http/ui-page.js';
import { actionBody } from '../../../src/wire/client-actions.js';
import { actionAnswer, clientAnswer as clientAnswerSchema } from '../../../src/wire/client-details.js';
import {
  changesAnswer,
  FLEET_EVENTS,
  type FleetDelta,
  type FleetSnapshot,
  type UiSession,
  uiSession,
} from '../../../src/wire/fleet.js';
import {
  documentsAnswer as documentsSchema,
  instancesAnswer as instancesSchema,
  policyDiffAnswer,
  policyFilesAnswer,
  policySourceAnswer,
} from '../../../src/wire/fleet-views.js';
import { traceAnswer as traceSchema } from '../../../src/wire/trace.js';
import {
  clientAnswer,
  diffAnswer,
  documentsAnswer,
  filesAnswer,
  instancesAnswer,
  logText,
  sourceAnswer,
  traceAnswer,
} from './sample-answers.js';
import { BEFORE, EPOCH, HEAD } from './sample-fleet.js';
import { SCENARIOS, type Scenario, type ScenarioName } from './scenarios.js';

/** A server with canned answers of each endpoint that the page asks. */
export interface FixtureServer extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`. */
  readonly url: string;
  /** What the page asked for, as `GET /ui/events`, oldest first. */
  readonly asked: readonly string[];
  /** Bodies of what was posted. */
  readonly posted: readonly unknown[];
  /** Streams that are open. */
  readonly streams: () => number;
  /** What the stream has told by now. */
  readonly fleet: () => FleetSnapshot | null;
  /** Sends a change to everybody who looks. */
  tell(delta: FleetDelta): void;
  /** Ends the streams; there is no new one before {@link restore}. */
  cut(): void;
  restore(): void;
  /** Ends the session: streams with the event `end`, everything else with 401. */
  expire(): void;
  /** Begins anew with a scenario: streams end, and nothing was asked or posted yet. Whoever looks has to load the page again. */
  become(name: ScenarioName): void;
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Tokens that the sign-in takes: of a datasource, of a listener; any other is refused, `client` for its kind. */
export const TOKENS = { datasource: 'datasource', listener: 'listener', client: 'client' } as const;

/** How long a browser waits before it opens a stream again; its own choice is seconds. */
const RETRY_MS = 100;

/** Scenarios whose answers are known to be what the contract says. */
const checked = new Set<ScenarioName>();

class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Serves the page in `folder` with a scenario. Throws where a canned answer is not what the contract says. */
export async function startFixture(
  folder: string,
  name: ScenarioName,
  { port = 0 }: { port?: number } = {},
): Promise<FixtureServer> {
  let world = checkedWorld(name);
  const asked: string[] = [];
  const posted: unknown[] = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://fixture');
    asked.push(`${request.method} ${url.pathname}${url.search}`);
    answer(request, response, url).catch((error: unknown) => fail(response, error));
  });

  async function answer(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    if (isOfPage(url.pathname)) return sendFile(response, { folder, path: url.pathname });
    if (url.pathname === '/data/log') return sendText(response, world.log(url));
    if (url.pathname === '/ui/events') return world.stream(request, response);
    const body: unknown = request.method === 'POST' ? JSON.parse(await text(request)) : undefined;
    if (body !== undefined) posted.push(body);
    const result = world.answer(request.method ?? 'GET', url, body);
    if (result === undefined) response.writeHead(204).end();
    else sendJson(response, 200, result);
  }

  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const address = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${address.port}`,
    asked,
    posted,
    streams: () => world.streams,
    fleet: () => world.fleet,
    tell: (delta) => world.tell(delta),
    cut: () => world.cut(),
    restore: () => world.restore(),
    expire: () => world.expire(),
    become: (other) => {
      world.end();
      world = checkedWorld(other);
      asked.length = 0;
      posted.length = 0;
    },
    async [Symbol.asyncDispose]() {
      world.end();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function checkedWorld(name: ScenarioName): World {
  const world = new World(SCENARIOS[name]);
  if (!checked.has(name)) world.check();
  checked.add(name);
  return world;
}

function isOfPage(path: string): boolean {
  return path === '/ui' || path === '/ui/' || (path.startsWith('/ui/') && extname(path) !== '');
}

function sendFile(response: ServerResponse, { folder, path }: { folder: string; path: string }): void {
  const name = path === '/ui' || path === '/ui/' ? 'index.html' : normalize(path.slice('/ui/'.length));
  const file = join(folder, name);
  if (name.startsWith('..') || !existsSync(`${file}.br`)) throw new Refusal(404, 'not_found', `there is no ${path}`);
  response.writeHead(200, {
    'content-type': TYPES[extname(file)] ?? 'application/octet-stream',
    'content-security-policy': UI_CSP,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-cache',
    'content-encoding': 'br', // which every browser takes from a loopback address
  });
  createReadStream(`${file}.br`).pipe(response);
}

function sendJson(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  const content = JSON.stringify(body);
  response
    .writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store', ...headers })
    .end(content);
}

/** JSON as it is: with numbers that JavaScript would round. */
function sendText(response: ServerResponse, content: string): void {
  response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-store' }).end(content);
}

function fail(response: ServerResponse, error: unknown): void {
  const { status, code, message } =
    error instanceof Refusal ? error : { status: 500, code: 'internal', message: String(error) };
  if (response.headersSent) response.destroy();
  else sendJson(response, status, { detail: message }, { 'x-sync-error': code });
}

/** The state of one scenario. */
class World {
  readonly #scenario: Scenario;
  readonly #open = new Set<ServerResponse>();
  #session: UiSession;
  #fleet: FleetSnapshot | null;
  #isCut = false;
  #event = 0;
  #timer: NodeJS.Timeout | undefined;
  #step = 0;

  constructor(scenario: Scenario) {
    this.#scenario = scenario;
    this.#session = scenario.session(Date.now());
    this.#fleet = scenario.snapshot(Date.now());
  }

  get streams(): number {
    return this.#open.size;
  }

  get fleet(): FleetSnapshot | null {
    return this.#fleet;
  }

  /** Every canned answer is what the contract says: fixtures that drift would test a page that nobody gets. */
  check(): void {
    uiSession.parse(this.#session);
    const fleet = this.#known();
    FLEET_EVENTS.snapshot.parse(fleet);
    const { goes } = this.#scenario;
    if (goes !== undefined) FLEET_EVENTS.delta.parse(goes.delta(fleet, 1, Date.now()));
    const first = [...fleet.clients.slice(0, 30)];
    for (const row of first) clientAnswerSchema.parse(clientAnswer(fleet, row));
    for (const change of fleet.changes) traceSchema.parse(traceAnswer(fleet, change.id));
    for (const [path, { schema }] of Object.entries(this.#answers()))
      schema.parse(this.#get(new URL(path, 'http://fixture')));
  }

  /** The fleet also where the stream has not told it. */
  #known(): FleetSnapshot {
    const fleet = this.#fleet ?? SCENARIOS.converging.snapshot(Date.now());
    return { ...fleet, at: Date.now() };
  }

  #answers(): Record<string, { schema: z.ZodType; make: (url: URL, fleet: FleetSnapshot) => unknown }> {
    return {
      '/changes': {
        schema: changesAnswer,
        make: (url, fleet) => ({ epoch: EPOCH, changes: changesFor(url.searchParams, fleet), next: null }),
      },
      '/data/documents': {
        schema: documentsSchema,
        make: (_url, fleet) =>
          fleet.head === 0 ? { ...documentsAnswer(fleet), documents: [], total: 0 } : documentsAnswer(fleet),
      },
      '/policy/source': {
        schema: policySourceAnswer,
        make: (_url, fleet) => (fleet.source === null ? NO_SOURCE : sourceAnswer(fleet)),
      },
      '/policy/files': {
        schema: policyFilesAnswer,
        make: (url) => filesAnswer(url.searchParams.get('at') ?? HEAD),
      },
      '/policy/diff': {
        schema: policyDiffAnswer,
        make: ({ searchParams }) => diffAnswer(searchParams.get('from') ?? BEFORE, searchParams.get('to') ?? HEAD),
      },
      '/instances': { schema: instancesSchema, make: (_url, fleet) => instancesAnswer(fleet) },
    };
  }

  #get(url: URL): unknown {
    const found = this.#answers()[url.pathname];
    if (found === undefined) throw new Refusal(404, 'not_found', `there is no ${url.pathname}`);
    return found.schema.parse(found.make(url, this.#known()));
  }

  answer(method: string, url: URL, body: unknown): unknown {
    const { pathname } = url;
    if (pathname === '/ui/session') return this.#sessionAnswer(method, body);
    if (!this.#session.signed_in) throw new Refusal(401, 'unauthorized', 'Nobody is signed in: sign in with a token.');
    const [, client, actions] = /^\/clients\/([^/]+)(\/actions)?$/.exec(pathname) ?? [];
    if (client !== undefined) return this.#client(decodeURIComponent(client), actions === undefined ? undefined : body);
    const [, change] = /^\/trace\/([^/]+)$/.exec(pathname) ?? [];
    if (change !== undefined) {
      const trace = traceAnswer(this.#known(), decodeURIComponent(change));
      if (trace === undefined) throw new Refusal(404, 'trace_unknown', 'The log and this memory know no such change.');
      return trace;
    }
    return this.#get(url);
  }

  /** `GET /data/log` of one document, with its value. */
  log({ searchParams }: URL): string {
    if (this.#session.role !== 'datasource') throw new Refusal(403, 'forbidden', 'Values need a datasource token.');
    return logText(searchParams.get('path') ?? '/', Number(searchParams.get('before')) - 1);
  }

  #client(id: string, action: unknown): unknown {
    const fleet = this.#known();
    const row = fleet.clients.find((one) => one.id === id);
    if (row === undefined) throw new Refusal(404, 'client_unknown', `No client is called ${id}.`);
    if (action === undefined) return clientAnswer(fleet, row);
    if (this.#session.role !== 'datasource')
      throw new Refusal(403, 'forbidden', 'Actions need a token of the kind datasource.');
    const asked = actionBody.parse(action);
    return actionAnswer.parse({ done: true, text: `${asked.action}: 24 documents and 13 files are current.` });
  }

  #sessionAnswer(method: string, body: unknown): unknown {
    if (method === 'DELETE') {
      this.#session = { ...this.#session, signed_in: false, role: null };
      return undefined;
    }
    if (method === 'GET') return this.#session;
    const token = typeof body === 'object' && body !== null && 'token' in body ? body.token : undefined;
    if (token === TOKENS.client)
      throw new Refusal(
        403,
        'forbidden',
        'A token of the kind client cannot sign in: use a listener or datasource token.',
      );
    if (token !== TOKENS.listener && token !== TOKENS.datasource)
      throw new Refusal(401, 'unauthorized', 'The token is not valid: its signature is of another key.');
    const endsAt = Date.now() + 3_600_000;
    this.#session = {
      ...this.#session,
      signed_in: true,
      authentication: true,
      role: token,
      subject: 'person',
      ends_at: endsAt,
    };
    return this.#session;
  }

  stream(request: IncomingMessage, response: ServerResponse): void {
    if (this.#isCut) throw new Refusal(503, 'draining', 'The server ends.');
    if (!this.#session.signed_in) throw new Refusal(401, 'unauthorized', 'Nobody is signed in: sign in with a token.');
    response.writeHead(200, {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    });
    response.write(`retry: ${RETRY_MS}\n\n`);
    this.#open.add(response);
    request.on('close', () => this.#open.delete(response));
    if (this.#fleet === null) return;
    this.#fleet = { ...this.#fleet, at: Date.now() };
    response.write(this.#eventText('snapshot', this.#fleet));
    if (this.#scenario.cut === true) {
      this.#isCut = true;
      response.end();
      return;
    }
    const { goes } = this.#scenario;
    if (goes === undefined || this.#timer !== undefined) return;
    this.#timer = setInterval(() => {
      this.#step += 1;
      if (this.#fleet !== null) this.tell(goes.delta(this.#fleet, this.#step, Date.now()));
    }, goes.everyMs);
  }

  #eventText(event: keyof typeof FLEET_EVENTS, data: unknown): string {
    this.#event += 1;
    return `id: ${this.#event}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
  }

  tell(delta: FleetDelta): void {
    const { clients = [], gone = [], changes = [], at, ...rest } = delta;
    if (this.#fleet !== null) this.#fleet = merged(this.#fleet, { clients, gone, changes, rest });
    const content = this.#eventText('delta', { ...delta, at });
    for (const response of this.#open) response.write(content);
  }

  cut(): void {
    this.#isCut = true;
    for (const response of this.#open) response.destroy();
  }

  restore(): void {
    this.#isCut = false;
  }

  expire(): void {
    this.#session = { ...this.#session, signed_in: false, role: null };
    for (const response of this.#open) response.end(this.#eventText('end', { reason: 'expired' }));
  }

  end(): void {
    clearInterval(this.#timer);
    for (const response of this.#open) response.destroy();
  }
}

function merged(
  fleet: FleetSnapshot,
  { clients, gone, changes, rest }: Pick<FleetDelta, 'clients' | 'gone' | 'changes'> & { rest: Partial<FleetDelta> },
): FleetSnapshot {
  const rows = new Map(fleet.clients.map((row) => [row.id, row]));
  for (const row of clients ?? []) rows.set(row.id, row);
  for (const id of gone ?? []) rows.delete(id);
  const fresh = changes ?? [];
  const old = fleet.changes.filter(({ id }) => !fresh.some((one) => one.id === id));
  const { head = fleet.head, summary = fleet.summary, source = fleet.source, instances = fleet.instances } = rest;
  return {
    ...fleet,
    head,
    summary,
    source,
    instances,
    clients: [...rows.values()],
    changes: [...fresh, ...old].slice(0, 50),
  };
}

/** Of one kind, or below one path, as they are asked for. */
function changesFor(query: URLSearchParams, { changes }: FleetSnapshot): FleetSnapshot['changes'] {
  const [kind, path] = [query.get('kind'), query.get('path')];
  return changes
    .filter((one) => kind === null || one.kind === kind)
    .filter(({ paths }) => path === null || paths.some((own) => own.startsWith(path) || path.startsWith(own)))
    .slice(0, Number(query.get('limit') ?? 50));
}

const NO_SOURCE = {
  type: 'none',
  source: null,
  branch: null,
  status: null,
  last_look: null,
  last_look_result: null,
  commits: [],
};
