import type { Pool } from 'undici';
import { WebSocket } from 'ws';
import { ReconnectBackoff } from '../../src/pubsub/reconnect-backoff.js';
import { field } from '../support/http.js';
import { Told } from './told.js';

/** Where an instance listens, and a few connections for what its subscribers ask of it. */
export interface Followed {
  readonly url: string;
  readonly asks: Pool;
}

/** One notice, as far as it matters here. */
interface Notice {
  readonly seq: number;
  readonly epoch: string;
  /** The last update before it on each of its topics. */
  readonly prev: Readonly<Record<string, number>>;
}

const LONGEST_BACKOFF_MS = 10_000;
/** Longer than a client waits: thousands that give up and come again would keep a busy machine from ever serving them. */
const HANDSHAKE_MS = 60_000;
/** The server sends a heartbeat each second: one that is silent for so long has no end of its own. */
const SILENT_MS = 30_000;
const ASK_AGAIN_MS = 300;
const PAGE = 1000;

/**
 * A client of ours without an engine: subscribes with its position, catches up by it, takes notices in order, and reports what it has. It
 * connects again for ever, each time to another instance.
 */
export class Subscriber {
  readonly told: Told;
  /** Orders of notices on one connection that must not be. */
  readonly wrong: string[] = [];
  readonly #id: string;
  readonly #topics: readonly string[];
  readonly #next: () => Followed;
  #socket: WebSocket | undefined;
  readonly #backoff = new ReconnectBackoff({ maxMs: LONGEST_BACKOFF_MS });
  /** Over how long the server wants its subscribers to come back. */
  #spreadMs = 0;
  #openedMs: number | undefined;
  #connections = 0;
  #foldsRead = 0;
  #heardMs = 0;
  #policyHead: string | null = null;
  #hasNews = false;
  /** The last notice of this connection. */
  #lastNotice = 0;
  /** What came while it catches up, in order; undefined: it does not. */
  #waiting: Notice[] | undefined;

  constructor(id: string, topics: readonly string[], next: () => Followed) {
    this.told = new Told(topics);
    this.#id = id;
    this.#topics = topics;
    this.#next = next;
  }

  get connections(): number {
    return this.#connections;
  }

  /** How often it had to begin anew. */
  get foldsRead(): number {
    return this.#foldsRead;
  }

  /** Connects, after a while of at most `withinMs`. */
  start(withinMs: number): void {
    setTimeout(() => this.#connect(), Math.random() * withinMs);
  }

  /** Ends the connection, without a word. */
  cut(): void {
    this.#socket?.terminate();
  }

  /** Ends a connection over which nothing comes. */
  look(nowMs: number): void {
    if (nowMs - this.#heardMs > SILENT_MS) this.cut();
  }

  /** Says what it has, if that is news. */
  report(): void {
    if (!this.#hasNews || this.#waiting !== undefined || this.#socket?.readyState !== WebSocket.OPEN) return;
    this.#hasNews = false;
    this.#send('report', {
      client_id: this.#id,
      position: this.#position() ?? null,
      policy_hash: this.#policyHead,
      ready: true,
      healthy: true,
      engine: { kind: 'none', version: null, online: true },
      since: 0,
      at: Date.now(),
    });
  }

  #connect(): void {
    const followed = this.#next();
    const socket = new WebSocket(`${followed.url.replace(/^http/, 'ws')}/ws`, {
      headers: { 'x-sync-protocol': '2' },
      handshakeTimeout: HANDSHAKE_MS,
      perMessageDeflate: false,
    });
    this.#socket = socket;
    this.#heardMs = performance.now();
    this.#lastNotice = 0;
    this.#waiting = [];
    socket.on('open', () => {
      this.#connections++;
      this.#openedMs = performance.now();
      this.#send('subscribe', {
        topics: this.#topics,
        client_id: this.#id,
        position: this.#position(),
        at: Date.now(),
      });
    });
    socket.on('message', (text) => this.#frame(JSON.parse(String(text)), followed));
    socket.on('error', () => undefined); // servers end: its end is told by 'close'
    socket.on('close', () => {
      if (this.#openedMs !== undefined) this.#backoff.ended(performance.now() - this.#openedMs);
      this.#openedMs = undefined;
      setTimeout(() => this.#connect(), this.#backoff.next(0, this.#spreadMs));
    });
  }

  #send(method: string, args: object): void {
    this.#socket?.send(JSON.stringify({ request: { method, arguments: args, call_id: method }, response: null }));
  }

  #position(): object | undefined {
    const { epoch, through } = this.told;
    return epoch === undefined ? undefined : { epoch, applied_through: through, applied_beyond: [], unresolved: [] };
  }

  #frame(frame: unknown, followed: Followed): void {
    this.#heardMs = performance.now();
    if (field(frame, 'response', 'call_id') === 'subscribe') {
      this.#subscribed(field(frame, 'response', 'result'), followed);
      return;
    }
    const args = field(frame, 'request', 'arguments');
    if (field(frame, 'request', 'method') === 'heartbeat') {
      const policyHead = field(args, 'policy_head') as string | null;
      if (policyHead !== this.#policyHead) this.#hasNews = true;
      this.#policyHead = policyHead;
      this.#spreadMs = Number(field(args, 'return_ms') ?? 0);
      const heads = Object.values((field(args, 'heads') ?? {}) as Record<string, number>);
      // What it says was sent before it: a notice that did not come before it does not come.
      if (this.#waiting === undefined && Math.max(0, ...heads) > this.told.through) this.#catchUp(followed);
      return;
    }
    const notice = field(args, 'data') as Notice | undefined;
    if (typeof notice?.seq !== 'number') return;
    if (notice.seq <= this.#lastNotice) this.wrong.push(`seq ${notice.seq} came after ${this.#lastNotice}`);
    this.#lastNotice = notice.seq;
    if (this.#waiting === undefined) this.#take(notice, followed);
    else this.#waiting.push(notice);
  }

  #subscribed(answer: unknown, followed: Followed): void {
    if (field(answer, 'accepted') !== true) {
      this.cut(); // this instance has not read so far yet: it is asked again later
      return;
    }
    this.#policyHead = field(answer, 'policy_head') as string | null;
    this.#catchUp(followed, Math.random() * Number(field(answer, 'spread_ms')));
  }

  #take(notice: Notice, followed: Followed): void {
    const { told } = this;
    if (notice.epoch !== told.epoch) {
      this.#catchUp(followed);
      return;
    }
    if (notice.seq <= told.through) return;
    const before = Object.entries(notice.prev).filter(([topic]) => told.concerns([topic]));
    if (before.some(([, seq]) => seq > told.through)) {
      this.#waiting = [notice];
      this.#catchUp(followed);
      return;
    }
    told.take(notice.seq);
    this.#hasNews = true;
  }

  /** Reads what it lacks, for as long as this connection is there, and takes what came meanwhile. */
  #catchUp(followed: Followed, inMs = 0): void {
    const socket = this.#socket;
    this.#waiting ??= [];
    const read = (): void => {
      if (socket !== this.#socket || socket?.readyState !== WebSocket.OPEN) return;
      this.#readPages(followed)
        .then(() => {
          if (socket !== this.#socket) return;
          const waiting = this.#waiting ?? [];
          this.#waiting = undefined;
          this.#hasNews = true;
          for (const [at, notice] of waiting.entries()) {
            this.#take(notice, followed);
            // It found a gap, and waits again: so does the rest.
            const own = this.#waiting as Notice[] | undefined;
            if (own === undefined) continue;
            own.push(...waiting.slice(at + 1));
            return;
          }
        })
        .catch(() => setTimeout(read, ASK_AGAIN_MS)); // the instance is away, frozen or behind: it is asked until the connection ends
    };
    setTimeout(read, inMs);
  }

  async #readPages({ asks }: Followed): Promise<void> {
    const { told } = this;
    let fold: { head: number; epoch: string } | undefined;
    let after = told.through;
    for (;;) {
      const topics = this.#topics.join(',');
      const query = new URLSearchParams({ topics, limit: String(PAGE), after: String(after) });
      const epoch = fold?.epoch ?? told.epoch;
      if (epoch !== undefined) query.set('epoch', epoch);
      if (fold !== undefined) query.set('from', 'fold');
      const { statusCode, body } = await asks.request({ method: 'GET', path: `/data/updates?${query}` });
      const text = await body.text();
      if (statusCode !== 200) throw new Error(`GET /data/updates: ${statusCode} ${text}`);
      const page = JSON.parse(text) as {
        epoch: string;
        head: number;
        from: 'tail' | 'fold';
        more: boolean;
        updates: { seq: number }[];
      };
      if (page.from === 'fold' && fold?.epoch !== page.epoch) fold = page;
      if (fold === undefined) for (const { seq } of page.updates) told.take(seq);
      after = page.updates.at(-1)?.seq ?? after;
      if (page.more) continue;
      if (fold !== undefined) {
        this.#foldsRead++;
        told.begin(fold.epoch, fold.head);
      }
      return;
    }
  }
}
