import type { IncomingMessage } from 'node:http';
import type { createConnection, Socket } from 'node:net';
import { WebSocket } from 'ws';
import { errorText, failureFields, SyncError } from '../lib/errors.js';
import type { Dial } from '../lib/net/connect.js';
import { connectFailure, SERVER_CA } from '../lib/net/connect-failure.js';
import { bodyStart, retryAfterSeconds } from '../lib/net/http-response.js';
import { secretsOfUrl } from '../lib/net/server-address.js';
import { plainFailure } from '../lib/net/tls-probe.js';
import { type Logger, redactUrl, Secret } from '../lib/observe/log.js';
import { errorBodyText } from '../lib/observe/problem-text.js';
import { aborted } from '../lib/run/async.js';
import { hexId } from '../lib/run/hex-id.js';
import {
  argumentText,
  notifyArguments,
  PROTOCOL_HEADER,
  PROTOCOL_VERSION,
  type RpcRequest,
  readFrame,
  requestFrame,
  responseFrame,
} from '../wire/frames.js';
import { FAREWELL_CODES, type Farewell } from './close-reason.js';
import { Heartbeat } from './heartbeat.js';
import { SENT_AWAY_CODE } from './send-away.js';

/** What a notification takes that is held, beside its text. */
const HELD_ROOM = 200;

/** What a client's connection is made with; see `socket-client.ts`. */
export interface LinkOptions {
  url: string;
  token?: Secret | undefined;
  openTimeoutMs: number;
  pingIntervalMs: number;
  frameLimitBytes: number;
  dial?: Dial | undefined;
}

/**
 * Calls a method of the server. Rejects with `server_unreachable` when no response arrives in time.
 */
export type MethodCall = (method: string, args: object, timeoutMs: number) => Promise<unknown>;

/** What a link works with. */
export interface LinkDeps {
  log: Logger;
  /** A publication; held until {@link Link.notify} is called. */
  onNotify(topic: string, dataText: string): void;
  /**
   * A request that OPAL's protocol does not have; returns whether it is known. What it asks for can
   * be told by `call`.
   */
  onRequest?(method: string, args: Readonly<Record<string, unknown>>, call: MethodCall): boolean;
}

/** How long the closing handshake may take before the connection is cut. */
const CLOSE_GRACE_MS = 1000;

/** One open connection to a server: calls in both directions, and notifications. */
export class Link {
  /** Version of our extensions that the server agreed to; undefined for an OPAL server. */
  readonly protocol: number | undefined;
  /** Aborts when the connection has ended; the reason is a `SyncError`. */
  readonly closed: AbortSignal;
  readonly #ws: WebSocket;
  readonly #deps: LinkDeps;
  /** Id of our side of the channel, 32 hex digits. */
  readonly channelId = hexId();
  readonly #ended = new AbortController();
  readonly #calls = new Map<string, (result: unknown) => void>();
  /** Publications before {@link notify}; undefined afterwards. */
  #held: [topic: string, dataText: string][] | undefined = [];
  #heldChars = 0;
  readonly #heldLimit: number;
  #failure: string | undefined;
  #sentAway = false;

  private constructor(
    ws: WebSocket,
    socket: Socket,
    protocol: number | undefined,
    options: LinkOptions,
    deps: LinkDeps,
  ) {
    this.#ws = ws;
    this.#deps = deps;
    this.#heldLimit = options.frameLimitBytes;
    this.protocol = protocol;
    this.closed = this.#ended.signal;
    const heartbeat = new Heartbeat(
      ws,
      socket,
      { intervalMs: options.pingIntervalMs, timeoutMs: options.pingIntervalMs },
      () => {
        this.#failure ??= 'the server does not answer pings';
        ws.terminate();
      },
    );
    ws.on('message', (data: Buffer, isBinary: boolean) => this.#receive(data, isBinary));
    ws.on('error', (error) => {
      this.#failure ??= errorText(error);
    });
    ws.on('close', (code, reason) => {
      heartbeat.stop();
      this.#sentAway = this.#failure === undefined && code === SENT_AWAY_CODE;
      const why = this.#failure ?? `closed with ${code}${reason.length > 0 ? ` ${reason}` : ''}`;
      this.#ended.abort(
        new SyncError('server_unreachable', `connection to ${redactUrl(options.url)} lost: ${why}`, {
          retryable: true,
        }),
      );
    });
  }

  /**
   * Connects. Rejects with `server_unreachable`, or with `server_refused` (and the wait that the
   * server asked for).
   */
  static async open(options: LinkOptions, deps: LinkDeps, signal: AbortSignal): Promise<Link> {
    const headers: Record<string, string> = { [PROTOCOL_HEADER]: String(PROTOCOL_VERSION) };
    if (options.token !== undefined) headers.authorization = `Bearer ${options.token.reveal()}`;
    const ws = new WebSocket(options.url, {
      headers,
      perMessageDeflate: false,
      handshakeTimeout: options.openTimeoutMs,
      maxPayload: options.frameLimitBytes,
      ...(options.dial === undefined ? {} : { createConnection: connectionBy(options.dial, options, signal) }),
    });
    const onAbort = (): void => ws.terminate();
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await new Promise((resolve, reject) => {
        ws.once('unexpected-response', (request, response) => {
          handshakeFailure(options, response).then((refusal) => {
            reject(refusal);
            request.destroy();
          }, reject);
        });
        const onError = (cause: Error): void => {
          notOpened(cause, options, signal).then(reject, reject);
        };
        ws.on('error', onError);
        // The link takes over at the upgrade: the first messages may come in the same packet.
        ws.once('upgrade', (response) => {
          const link = new Link(ws, response.socket, agreed(response), options, deps);
          ws.once('open', () => {
            ws.off('error', onError);
            resolve(link);
          });
        });
      });
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** Whether it ended because the server drains: another one serves. */
  get sentAway(): boolean {
    return this.#sentAway;
  }

  /** Delivers the held publications in order, then each one as it arrives. */
  notify(): void {
    const early = this.#held ?? [];
    this.#held = undefined;
    this.#handle(() => {
      for (const [topic, dataText] of early) this.#deps.onNotify(topic, dataText);
    });
  }

  /**
   * Calls a method of the server. Rejects with `server_unreachable` when no response arrives in
   * time.
   */
  call(method: string, args: object, timeoutMs: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const id = hexId();
      const settle = (): void => {
        clearTimeout(timer);
        this.#calls.delete(id);
        this.closed.removeEventListener('abort', onClosed);
      };
      const onClosed = (): void => {
        settle();
        reject(this.closed.reason);
      };
      const timer = setTimeout(() => {
        settle();
        reject(new SyncError('server_unreachable', `no answer to ${method} in ${timeoutMs} ms`, { retryable: true }));
      }, timeoutMs);
      this.#calls.set(id, (result) => {
        settle();
        resolve(result);
      });
      if (this.closed.aborted) onClosed();
      else {
        this.closed.addEventListener('abort', onClosed, { once: true });
        this.#send(requestFrame(method, args, id));
      }
    });
  }

  /**
   * Ends the connection; resolves when nothing of it is left. `farewell`: what a server of ours is
   * told of it.
   */
  async close(farewell?: Farewell): Promise<void> {
    if (this.closed.aborted) return;
    const isTold = farewell !== undefined && this.protocol !== undefined;
    this.#end('closed from our side', isTold ? FAREWELL_CODES[farewell] : 1000);
    await aborted(this.closed);
  }

  /** Starts the closing handshake and cuts the connection when the server does not complete it. */
  #end(reason: string, code: number): void {
    if (this.#failure !== undefined) return;
    this.#failure = reason;
    this.#ws.close(code, reason);
    const grace = setTimeout(() => this.#ws.terminate(), CLOSE_GRACE_MS);
    this.closed.addEventListener('abort', () => clearTimeout(grace), { once: true });
  }

  #send(text: string): void {
    if (this.#ws.readyState === this.#ws.OPEN) this.#ws.send(text);
  }

  /**
   * An unreadable frame may have been an update: the connection ends, and the next one catches up.
   */
  #receive(data: Buffer, isBinary: boolean): void {
    if (this.#failure !== undefined) return;
    if (isBinary) {
      this.#end('a binary frame arrived', 1003);
      return;
    }
    const text = data.toString();
    this.#handle(() => {
      const frame = readFrame(text);
      if (frame?.request) this.#answer(frame.request, text);
      if (frame?.response) this.#calls.get(frame.response.call_id ?? '')?.(frame.response.result);
    });
  }

  #handle(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#deps.log.error(failureFields(error, 'stack'), 'a frame of the server could not be handled');
      if (error instanceof SyncError && error.code === 'frame_invalid') this.#end(error.message, 1007);
      else this.#end('a notification could not be handled', 1011);
    }
  }

  #answer(request: RpcRequest, text: string): void {
    const callId = request.call_id ?? null;
    switch (request.method) {
      case 'notify':
        // An OPAL server waits for this response before it serves the next subscriber; ours ignores
        // it.
        if (this.protocol === undefined) this.#send(responseFrame('None', 'str', callId));
        this.#notify(request, text);
        break;
      case '_ping_':
      case 'ping':
        this.#send(responseFrame('pong', 'str', callId));
        break;
      case '_get_channel_id_':
        this.#send(responseFrame(this.channelId, 'str', callId));
        break;
      default:
        // A negotiated request needs no response.
        if (this.protocol !== undefined && this.#isTaken(request)) break;
        this.#deps.log.debug({ method: request.method }, 'the server called an unknown method');
        this.#send(responseFrame(null, null, callId));
    }
  }

  #isTaken({ method, arguments: args }: RpcRequest): boolean {
    const call: MethodCall = (...called) => this.call(...called);
    return this.#deps.onRequest?.(method, args, call) === true;
  }

  #notify(request: RpcRequest, text: string): void {
    const parsed = notifyArguments.safeParse(request.arguments);
    if (!parsed.success) {
      this.#deps.log.warn('a notification without a topic is ignored');
      return;
    }
    const { topic } = parsed.data.subscription;
    const dataText = argumentText(text, 'data');
    if (this.#held === undefined) this.#deps.onNotify(topic, dataText);
    else {
      this.#heldChars += topic.length + dataText.length + HELD_ROOM;
      if (this.#heldChars > this.#heldLimit)
        throw new Error('too much is published before the subscription is answered');
      this.#held.push([topic, dataText]);
    }
  }
}

async function notOpened(cause: Error, { url, dial }: LinkOptions, signal: AbortSignal): Promise<SyncError> {
  const message = `cannot connect to ${redactUrl(url)}`;
  const why = dial === undefined ? cause : await plainFailure(cause, url, dial, signal);
  return connectFailure(why, { message, code: 'server_unreachable', caSetting: SERVER_CA, retryable: true });
}

/**
 * A dial as the `createConnection` of Node's requests, which receive the socket by a callback. Sets
 * the handshake timeout, since Node sets it only on sockets that it makes itself; `ws` removes it
 * at the upgrade.
 */
function connectionBy(dial: Dial, { url, openTimeoutMs }: LinkOptions, signal: AbortSignal): typeof createConnection {
  const connect = (_: unknown, done: (error: unknown, socket?: Socket) => void): void => {
    dial(new URL(url), signal).then((socket) => done(null, socket.setTimeout(openTimeoutMs)), done);
  };
  // The declared type returns the socket at once.
  return connect as unknown as typeof createConnection;
}

function agreed(response: IncomingMessage): number | undefined {
  const version = Number(response.headers[PROTOCOL_HEADER]);
  return Number.isInteger(version) && version >= 1 ? Math.min(version, PROTOCOL_VERSION) : undefined;
}

/** Longest wait that a server can ask for with `Retry-After`. */
const RETRY_AFTER_MAX_SECONDS = 600;
/** What is read of a refusal, and for how long. */
const REFUSAL_TEXT_BYTES = 4096;
const REFUSAL_TEXT_MS = 2000;

/**
 * The error for a handshake that a server refuses: `token_refused` for a 401, else
 * `server_refused`, with what it says, without token and secrets of the URL.
 */
async function handshakeFailure(
  { url, token }: { readonly url: string; readonly token?: Secret | undefined },
  response: IncomingMessage,
): Promise<SyncError> {
  const timer = setTimeout(() => response.destroy(), REFUSAL_TEXT_MS);
  const text = (await bodyStart(response, REFUSAL_TEXT_BYTES)).toString('utf8');
  clearTimeout(timer);
  const { statusCode, headers } = response;
  const seconds = retryAfterSeconds(headers, RETRY_AFTER_MAX_SECONDS) ?? 0;
  const secrets = [...(token === undefined ? [] : [token]), ...secretsOfUrl(url).map((part) => new Secret(part))];
  const said = secrets.reduce((shown, secret) => secret.hideIn(shown), text);
  const why = text === '' ? '' : `: ${errorBodyText(said)}`;
  return new SyncError(
    statusCode === 401 ? 'token_refused' : 'server_refused',
    `${redactUrl(url)} refused the connection with ${statusCode ?? 'no status'}${why}`,
    { retryable: true, ...(seconds > 0 ? { retryAfterSeconds: seconds } : {}) },
  );
}
