import type { Socket } from 'node:net';
import type { WebSocket } from 'ws';
import { type ErrorCode, errorCode, errorText, failureFields, SyncError } from '../lib/errors.js';
import type { Logger } from '../lib/observe/log.js';
import { type Budget, Held } from '../lib/run/budget.js';
import { hexId } from '../lib/run/hex-id.js';
import {
  argumentText,
  OPAL_FRAME_LIMIT_BYTES,
  type RpcRequest,
  readFrame,
  requestFrame,
  responseFrame,
  type TextFrame,
  textFrame,
  topicList,
} from '../wire/frames.js';
import { closedByPeer, FAREWELL_CODES, SERVER_STOPPED } from './close-reason.js';
import type { EventLoopTick } from './event-loop-tick.js';
import { Heartbeat } from './heartbeat.js';
import type { Hub, Subscriber } from './hub.js';
import { MAX_CALL_BYTES, withoutPublished } from './large-frame.js';
import {
  ANNOUNCE_TOPIC,
  announcedBy,
  atTime,
  type Peer,
  type PeerInfo,
  type SessionHandler,
  type SessionPeer,
} from './peer.js';

/** Limits and times of a connection; see `socket-server.ts`. */
export interface ConnectionOptions {
  bufferLimitBytes: number;
  pingIntervalMs: number;
  pongTimeoutMs: number;
  /** Shared by all connections. */
  tick: EventLoopTick;
  /** Called when one has ended. */
  onClosed(connection: Connection): void;
}

/** What a connection works with. */
export interface ConnectionDeps {
  hub: Hub;
  log: Logger;
  onPublish?(topics: readonly string[], dataText: string, peer: Peer, except?: Subscriber): Promise<void>;
  /** Serves our own peers beyond pub/sub. Default: they are plain peers. */
  sessions?: SessionHandler | undefined;
  /**
   * What one token and one address may have of all subscriptions, beyond the first ones of a
   * connection. Default: no bound.
   */
  topics?: Pick<Budget, 'take' | 'refusal'> | undefined;
  /** Counts connections that open, and that are dropped. */
  meter?: { opened(): void; dropped(): void } | undefined;
}

/** Topics of OPAL's statistics (opal-protocol P1.7): passed on between peers, never stored. */
const STATISTICS_PREFIX = '__opal_stats';
/**
 * More than any client has. Both bound the memory of one peer: a topic may be as long as a frame.
 */
const MAX_TOPICS = 10_000;
const MAX_TOPICS_CHARACTERS = 262_144;
/** Topics of a connection that count for no budget: more than most clients have. */
const UNCOUNTED_TOPICS = 32;
/** Topics of one publish. */
const MAX_PUBLISH_TOPICS = 1_000;
/**
 * What one publish may put before subscribers of statistics topics: its data once for each topic.
 * The topics of a client fit.
 */
const MAX_STATISTICS_BYTES = 1_048_576;
/** Publishes of one peer that may be queued before the server stops reading from it. */
const MAX_WAITING_PUBLISHES = 64;
/**
 * How a response to `notify` starts, as Python and as our client write it. It is not parsed:
 * nothing in it is used.
 */
const RESPONSE_STARTS = ['{"request": null', '{"request":null'].map((text) => Buffer.from(text));

/**
 * Longest topic of a subscription: a directory of a policy repository, or what a data update may
 * name.
 */
const MAX_TOPIC_CHARACTERS = 1024;

/** Topics that a log line names, and characters of each. */
const NAMED_TOPICS = 5;
const SHOWN_CHARACTERS = 100;

const NOTHING = (): void => undefined;

/**
 * One peer's socket on the server: responds to its calls, and receives publications as a
 * {@link Subscriber} of the hub.
 */
export class Connection implements Subscriber, SessionPeer {
  readonly id = hexId();
  readonly extended: boolean;
  readonly #protocol: number | undefined;
  readonly #ws: WebSocket;
  readonly #socket: Socket;
  readonly #peer: Peer;
  readonly #options: ConnectionOptions;
  readonly #deps: ConnectionDeps;
  #ownLog: Logger | undefined;
  readonly #heartbeat: Heartbeat;
  readonly #stopExpiry: () => void;
  readonly #topics = new Set<string>();
  #topicsCharacters = 0;
  readonly #counted: Held | undefined;
  readonly #query: Readonly<Record<string, string>>;
  /** Where the peer is; its connection may come from a proxy. */
  readonly #host: string;
  readonly #connectedAtMs = Date.now();
  #clientId: string | undefined;
  #rpcId: string | undefined;
  #complaints: Set<string> | undefined;
  readonly #tick: EventLoopTick;
  /** The tick in which it was sent something last. */
  #sentInTick = -1;
  #corked = false;
  #isReleased = false;
  #publishes: Promise<void> | undefined;
  #waitingPublishes = 0;
  #isLeaving = false;

  /** `socket` is the connection below `ws`. */
  constructor(
    ws: WebSocket,
    socket: Socket,
    about: {
      protocol: number | undefined;
      peer: Peer;
      host: string;
      query: Readonly<Record<string, string>>;
      clientId: string | undefined;
    },
    options: ConnectionOptions,
    deps: ConnectionDeps,
  ) {
    this.#tick = options.tick;
    this.#ws = ws;
    this.#socket = socket;
    this.#peer = about.peer;
    this.extended = about.protocol !== undefined;
    this.#protocol = about.protocol;
    this.#query = about.query;
    this.#host = about.host;
    this.#clientId = about.clientId;
    this.#options = options;
    this.#deps = deps;
    const { topics } = deps;
    this.#counted = topics && new Held(topics, { subject: about.peer.subject, address: about.host });
    this.#heartbeat = new Heartbeat(
      ws,
      socket,
      { intervalMs: options.pingIntervalMs, timeoutMs: options.pongTimeoutMs },
      () => this.drop('does not answer pings', `no answer to pings for ${options.pongTimeoutMs / 1000} s`),
    );
    const { expiresAtMs } = about.peer;
    // Both kinds of client reconnect after every close; the tarpit holds them back until they have
    // a new token.
    this.#stopExpiry =
      expiresAtMs === undefined
        ? NOTHING
        : atTime(expiresAtMs, () => this.close(1008, 'the token has expired', 'its token expired'));
    ws.on('message', (data: Buffer, isBinary: boolean) => this.#receive(data, isBinary));
    // Broken framing, an oversized message, a lost connection: ws closes it with the code that
    // fits.
    ws.on('error', (error) => this.#log().info({ error: errorText(error) }, 'socket failed'));
    ws.on('close', (code) => {
      this.#release(closedByPeer(code), code === FAREWELL_CODES.goodbye);
      options.onClosed(this);
    });
    deps.meter?.opened();
  }

  /**
   * Sends one text message without waiting. Disconnects a subscriber whose unread bytes exceed the
   * limit, and an OPAL peer that cannot receive a frame of this size (opal-protocol P1.1). Both
   * catch up when they reconnect.
   *
   * Writes to the socket below `ws`, which would frame the message once per peer. The control
   * frames that `ws` sends stay between messages, since every message takes this way.
   */
  send({ bytes, payload }: TextFrame): void {
    if (this.#ws.readyState !== this.#ws.OPEN) return;
    if (!this.extended && payload.length >= OPAL_FRAME_LIMIT_BYTES) {
      this.#log().warn({ bytes: payload.length }, 'an update is too large for an OPAL client; it is sent to reload');
      this.close(1012, 'an update is too large for a frame: read GET /data/config');
    } else if (this.#ws.bufferedAmount > this.#options.bufferLimitBytes) {
      this.drop('does not read what it is sent', 'it did not read what it was sent');
    } else {
      const tick = this.#tick.now;
      if (tick === this.#sentInTick) this.#cork();
      this.#sentInTick = tick;
      this.#socket.write(bytes);
    }
  }

  get permittedTopics(): ReadonlySet<string> | undefined {
    return this.#peer.permittedTopics;
  }

  /** What is known of the peer. */
  get info(): PeerInfo {
    return {
      id: this.id,
      clientId: this.#clientId,
      subject: this.#peer.subject,
      rpcId: this.#rpcId,
      host: this.#host,
      port: this.#socket.remotePort ?? 0,
      connectedAtMs: this.#connectedAtMs,
      topics: [...this.#topics],
      query: this.#query,
      extended: this.extended,
      protocol: this.#protocol,
    };
  }

  /** Bytes that the peer has not read yet. */
  get queuedBytes(): number {
    return this.#ws.bufferedAmount;
  }

  tell(method: string, args: object): void {
    this.send(textFrame(requestFrame(method, args, hexId())));
  }

  isAlive(timeoutMs: number): Promise<boolean> {
    if (this.#ws.readyState !== this.#ws.OPEN) return Promise.resolve(false);
    const received = this.#socket.bytesRead;
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#ws.off('pong', end);
        this.#ws.off('close', end);
        // Any byte is a sign of life, as in the heartbeat of the connection.
        resolve(this.#ws.readyState === this.#ws.OPEN && this.#socket.bytesRead !== received);
      };
      const timer = setTimeout(end, timeoutMs);
      this.#ws.once('pong', end);
      this.#ws.once('close', end);
      this.#ws.ping();
    });
  }

  /**
   * Starts the closing handshake; publications stop at once. `why`: what is said of the client from
   * now on.
   */
  close(code: number, reason: string, why = `the server closed its connection: ${reason}`): void {
    this.#release(why);
    this.#ws.close(code, reason);
  }

  /**
   * As {@link close}, for a server that stops: once the publishes that have arrived are answered;
   * what comes meanwhile is not carried out.
   */
  leave(code: number, reason: string): void {
    this.#isLeaving = true;
    if (this.#waitingPublishes === 0) this.close(code, reason, SERVER_STOPPED);
    else void this.#publishes?.then(() => this.close(code, reason, SERVER_STOPPED));
  }

  /** Cuts the connection, for a peer that would not complete the closing handshake. */
  drop(reason: string, why = `the server cut its connection: ${reason}`): void {
    this.#log().warn({ reason }, 'subscriber dropped');
    this.#deps.meter?.dropped();
    this.#release(why);
    this.#ws.terminate();
  }

  /** Ends subscriptions and session; the closing handshake may take longer. */
  #release(why: string, isGoodbye = false): void {
    this.#heartbeat.stop();
    this.#stopExpiry();
    this.#deps.hub.remove(this);
    this.#counted?.release();
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#deps.sessions?.closed(this, why, isGoodbye);
  }

  /**
   * The rest of this tick's messages reach the operating system in one call: bursts cost far less.
   */
  #cork(): void {
    if (this.#corked) return;
    this.#corked = true;
    this.#socket.cork();
    setImmediate(() => {
      this.#corked = false;
      this.#socket.uncork();
    });
  }

  #receive(data: Buffer, isBinary: boolean): void {
    // Frames may still arrive while the connection ends: they must not bring it back into the hub.
    if (this.#ws.readyState !== this.#ws.OPEN || this.#isLeaving) return;
    if (isBinary) {
      this.close(1003, 'text frames only');
      return;
    }
    if (RESPONSE_STARTS.some((start) => data.subarray(0, start.length).equals(start))) return;
    try {
      const whole = data.length > MAX_CALL_BYTES ? undefined : data.toString();
      const request = readFrame(whole ?? withoutPublished(data))?.request;
      if (request) this.#answer(request, data.length, () => whole ?? data.toString());
    } catch (error) {
      const refused = error instanceof SyncError ? error : new SyncError('frame_invalid', errorText(error));
      this.#log().warn(failureFields(refused), 'frame refused');
      this.close(1007, 'a frame is not JSON, or is no call');
    }
  }

  /** `bytes`, `frameText`: the frame as it came. */
  #answer(request: RpcRequest, bytes: number, frameText: () => string): void {
    const callId = request.call_id ?? null;
    const { topics } = request.arguments;
    switch (request.method) {
      case '_ping_':
      case 'ping':
        this.#reply('pong', 'str', callId);
        break;
      case '_get_channel_id_':
        this.#reply(this.id, 'str', callId);
        break;
      case 'subscribe':
        if (!this.#opensSession(request, callId))
          this.#reply(this.#subscribe(topicList(topics)) === true, 'bool', callId);
        break;
      case 'unsubscribe':
        this.#reply(this.#unsubscribe(topicList(topics)), 'bool', callId);
        break;
      case 'publish':
        this.#publish(request, frameText, callId);
        break;
      default:
        if (this.speaksSessions && this.#deps.sessions?.takes(request.method)) {
          this.#reply(this.#deps.sessions.call(this, request.method, request.arguments, bytes), 'bool', callId);
          break;
        }
        // OPAL drops the connection here; a response is cheaper, and no peer waits for ever.
        this.#complainOnce(`unknown method ${JSON.stringify(request.method.slice(0, 100))}`);
        this.#reply(null, null, callId);
    }
  }

  /** It negotiated sessions: heartbeats tell it the head of the log. */
  get speaksSessions(): boolean {
    const { sessions } = this.#deps;
    return sessions !== undefined && (this.#protocol ?? 0) >= sessions.protocol;
  }

  /** Opens a session for a `subscribe` with client id and position; false for a plain one. */
  #opensSession({ arguments: args }: RpcRequest, callId: string | null): boolean {
    if (!this.speaksSessions) return false;
    const answer = this.#deps.sessions?.open(this, args, () => this.#subscribe(topicList(args.topics)));
    answer?.then(
      (result) => this.#reply(result, null, callId),
      (error: unknown) => {
        this.#log().error(failureFields(error, 'stack'), 'a session could not be opened');
        this.close(1011, 'the session could not be opened');
      },
    );
    return answer !== undefined;
  }

  #reply(result: unknown, type: 'bool' | 'str' | null, callId: string | null): void {
    this.send(textFrame(responseFrame(result, type, callId)));
  }

  /** Returns false, or a text that the peer may read, where it may not. */
  #subscribe(topics: string[] | undefined): boolean | string {
    // Opening a session takes a while: a connection that has ended meanwhile must not come back
    // into the hub.
    if (this.#ws.readyState !== this.#ws.OPEN) return false;
    if (topics === undefined) return this.#complainOnce('subscribe without a list of topics');
    if (!this.#permits(topics)) return this.#complainOfTopics('subscribe', topics);
    if (topics.some((topic) => topic.length > MAX_TOPIC_CHARACTERS))
      return this.#complainOnce(`a topic of more than ${MAX_TOPIC_CHARACTERS} characters`);
    const added = new Set(topics.filter((topic) => !this.#topics.has(topic)));
    if (this.#topics.size + added.size > MAX_TOPICS) return this.#complainOnce(`more than ${MAX_TOPICS} topics`);
    const characters = [...added].reduce((sum, topic) => sum + topic.length, this.#topicsCharacters);
    if (characters > MAX_TOPICS_CHARACTERS)
      return this.#complainOnce(`topics of more than ${MAX_TOPICS_CHARACTERS} characters`);
    const refusal = this.#count(this.#topics.size + added.size);
    if (refusal !== undefined) {
      this.#complainOnce(refusal.message, refusal.code);
      return refusal.message;
    }
    this.#topicsCharacters = characters;
    for (const topic of added) this.#topics.add(topic);
    this.#deps.hub.subscribe(this, added);
    return true;
  }

  #unsubscribe(topics: string[] | undefined): boolean {
    if (topics === undefined) return this.#complainOnce('unsubscribe without a list of topics');
    for (const topic of topics) if (this.#topics.delete(topic)) this.#topicsCharacters -= topic.length;
    this.#deps.hub.unsubscribe(this, topics);
    this.#count(this.#topics.size);
    return true;
  }

  /** Counts so many topics. Returns the error if they are too many, and then counts as before. */
  #count(topics: number): SyncError | undefined {
    const full = this.#counted?.resize(Math.max(0, topics - UNCOUNTED_TOPICS));
    return full === undefined ? undefined : this.#deps.topics?.refusal(full);
  }

  /** Runs the publishes of one peer one after the other, so that its updates keep their order. */
  #publish(request: RpcRequest, frameText: () => string, callId: string | null): void {
    const topics = topicList(request.arguments.topics);
    if (topics === undefined || topics.length > MAX_PUBLISH_TOPICS) {
      this.#reply(this.#complainOnce(`publish without a list of at most ${MAX_PUBLISH_TOPICS} topics`), 'bool', callId);
      return;
    }
    const dataText = argumentText(frameText(), 'data');
    const toSelf = typeof request.arguments.notifier_id === 'string';
    if (++this.#waitingPublishes > MAX_WAITING_PUBLISHES) this.#ws.pause();
    this.#publishes = (this.#publishes ?? Promise.resolve()).then(async () => {
      let accepted = false;
      try {
        accepted = await this.#deliver(topics, dataText, toSelf);
      } catch (error) {
        this.#complainOnce(`publish refused: ${errorText(error).slice(0, 500)}`, errorCode(error));
      }
      if (--this.#waitingPublishes <= MAX_WAITING_PUBLISHES) this.#ws.resume();
      this.#reply(accepted, 'bool', callId);
    });
  }

  async #deliver(topics: string[], dataText: string, toSelf: boolean): Promise<boolean> {
    const { expiresAtMs } = this.#peer;
    if (expiresAtMs !== undefined && expiresAtMs <= Date.now())
      return this.#complainOnce('publish after the token has expired', 'unauthorized');
    const lasting = topics.filter((topic) => !topic.startsWith(STATISTICS_PREFIX));
    if (lasting.length > 0 && !this.#peer.mayPublish) {
      return this.#complainOnce('publish by a token that is none of a datasource', 'unauthorized');
    }
    if (!this.#permits(lasting)) return this.#complainOfTopics('publish', lasting);
    // Every peer may announce itself; its event is published only on topics that its token permits.
    if (topics.includes(ANNOUNCE_TOPIC)) this.#announced(dataText);
    if (!this.#permits(topics)) return this.#complainOfTopics('publish', topics);
    const statistics = topics.filter((topic) => topic.startsWith(STATISTICS_PREFIX));
    if (statistics.length * dataText.length > MAX_STATISTICS_BYTES) {
      return this.#complainOnce(
        `publish of ${dataText.length} characters on ${statistics.length} statistics topics: at most ${MAX_STATISTICS_BYTES} in all`,
      );
    }
    for (const topic of statistics) {
      // A publisher gets its own event only when it says that somebody else notifies (opal-protocol
      // P1.3).
      this.#deps.hub.publish({ topics: [topic], text: dataText, ...(toSelf ? {} : { except: this }) });
    }
    if (lasting.length === 0) return true;
    if (this.#deps.onPublish === undefined) return this.#complainOnce('publish on a topic that takes none');
    // Our own clients must receive every seq of their topics.
    await this.#deps.onPublish(lasting, dataText, this.#peer, toSelf || this.extended ? undefined : this);
    return true;
  }

  #permits(topics: readonly string[]): boolean {
    const permitted = this.#peer.permittedTopics;
    return permitted === undefined || topics.every((topic) => permitted.has(topic));
  }

  #announced(dataText: string): void {
    const announced = announcedBy(dataText);
    this.#clientId = announced?.clientId ?? this.#clientId;
    this.#rpcId = announced?.rpcId ?? this.#rpcId;
  }

  /** Made when needed: idle subscribers stay small. */
  #log(): Logger {
    this.#ownLog ??= this.#deps.log.child({
      connection: this.id,
      address: `${this.#host}:${this.#socket.remotePort ?? '?'}`,
    });
    return this.#ownLog;
  }

  /** Logs each complaint once per connection: a peer must not fill the log. */
  #complainOnce(complaint: string, code: ErrorCode = 'frame_invalid'): false {
    this.#complaints ??= new Set();
    if (this.#complaints.size < 20 && !this.#complaints.has(complaint)) {
      this.#complaints.add(complaint);
      this.#log().warn(failureFields(new SyncError(code, complaint)), 'call not carried out');
    }
    return false;
  }

  /** {@link #complainOnce}, with the topics that the token does not permit. */
  #complainOfTopics(call: string, topics: readonly string[]): false {
    const others = topics.filter((topic) => !this.#permits([topic]));
    const named = others.slice(0, NAMED_TOPICS).map((topic) => JSON.stringify(topic.slice(0, SHOWN_CHARACTERS)));
    const more = others.length > named.length ? ', ...' : '';
    return this.#complainOnce(`${call}: the token does not permit ${named.join(', ')}${more}`, 'topic_not_permitted');
  }
}
