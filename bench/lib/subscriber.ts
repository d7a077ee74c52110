import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** How a {@link Subscriber} is. */
export interface SubscriberOptions {
  readonly topic: string;
  /** Answer each call of the server, as OPAL's clients do. */
  readonly answer: boolean;
  /** It is a client of ours under this name, and reports at once what it is told of. Undefined: it says nothing of itself. */
  readonly clientId?: string | undefined;
  /** A notification with `mark:<n>;` in it has arrived. */
  onMark(mark: number): void;
}

const KEY = Buffer.from('policysync-bench').toString('base64');
const OPCODE = { text: 1, close: 8, ping: 9, pong: 10 } as const;
const MARK = Buffer.from('mark:');
const CALL_ID = Buffer.from('"call_id"');
const SEQ = Buffer.from('"seq":');
const HEARTBEAT = Buffer.from('"method":"heartbeat"');
const NOTHING = Buffer.alloc(0);

/**
 * One subscriber of OPAL's protocol on a bare socket: a thousand of them must cost little beside the server that is measured.
 * It knows the frames that servers send unfragmented, and reads nothing of them but the mark and the id of a call.
 */
export class Subscriber {
  readonly #socket: Socket;
  readonly #options: SubscriberOptions;
  #pending: Buffer = NOTHING;
  #onSubscribed: (() => void) | undefined;
  /** Of the log, and what it holds of that. */
  #epoch = '';
  #through = 0;

  private constructor(socket: Socket, options: SubscriberOptions) {
    this.#socket = socket;
    this.#options = options;
  }

  /** Connects and subscribes. Rejects when the server refuses. */
  static async open(serverUrl: string, options: SubscriberOptions): Promise<Subscriber> {
    const { hostname, port } = new URL(serverUrl);
    const socket = connect(Number(port), hostname).setNoDelay(true);
    await once(socket, 'connect');
    socket.write(
      `GET /ws HTTP/1.1\r\nhost: ${hostname}:${port}\r\nupgrade: websocket\r\nconnection: upgrade\r\n` +
        `sec-websocket-key: ${KEY}\r\nsec-websocket-version: 13\r\n` +
        `${options.clientId === undefined ? '' : 'x-sync-protocol: 2\r\n'}\r\n`,
    );
    const [head] = (await once(socket, 'data')) as [Buffer];
    const text = head.toString('latin1');
    if (!text.startsWith('HTTP/1.1 101') || !text.endsWith('\r\n\r\n')) throw new Error(`no upgrade: ${text}`);
    const subscriber = new Subscriber(socket, options);
    const subscribed = new Promise<void>((resolve, reject) => {
      subscriber.#onSubscribed = resolve;
      socket.once('close', () => reject(new Error('the server has ended the connection')));
    });
    // After the subscription nobody waits for this promise; a server that is stopped ends connections.
    subscribed.catch(() => undefined);
    socket.on('error', () => undefined); // its end is told by 'close'
    socket.on('data', (chunk) => subscriber.#take(chunk));
    const own = options.clientId === undefined ? {} : { client_id: options.clientId };
    const call = { method: 'subscribe', arguments: { topics: [options.topic], ...own }, call_id: 'subscribe' };
    subscriber.#send(OPCODE.text, Buffer.from(JSON.stringify({ request: call, response: null })));
    await subscribed;
    return subscriber;
  }

  /** Reads nothing from now on. */
  stall(): void {
    this.#socket.pause();
  }

  #take(chunk: Buffer): void {
    let rest = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
    for (;;) {
      const [first, second] = rest;
      if (first === undefined || second === undefined) break;
      const short = second & 0x7f;
      const start = short < 126 ? 2 : short === 126 ? 4 : 10;
      if (rest.length < start) break;
      const length = short < 126 ? short : short === 126 ? rest.readUInt16BE(2) : Number(rest.readBigUInt64BE(2));
      if (rest.length < start + length) break;
      this.#frame(first, rest.subarray(start, start + length));
      rest = rest.subarray(start + length);
    }
    this.#pending = rest;
  }

  #frame(first: number, payload: Buffer): void {
    if ((first & 0x80) === 0) throw new Error('a fragmented message');
    const opcode = first & 0x0f;
    if (opcode === OPCODE.ping) this.#send(OPCODE.pong, payload);
    if (opcode !== OPCODE.text) return;
    if (this.#onSubscribed !== undefined) {
      const text = payload.toString();
      if (!/"result": ?true|"accepted":true/.test(text)) throw new Error(`not subscribed: ${text}`);
      this.#epoch = /"epoch":"(\w+)"/.exec(text)?.[1] ?? '';
      this.#onSubscribed();
      this.#onSubscribed = undefined;
      return;
    }
    const mark = payload.indexOf(MARK);
    if (mark >= 0) this.#options.onMark(Number.parseInt(payload.toString('latin1', mark + MARK.length, mark + 20), 10));
    if (this.#options.answer) this.#answer(payload);
    if (this.#options.clientId !== undefined) this.#report(payload, this.#options.clientId);
  }

  #report(call: Buffer, clientId: string): void {
    const at = call.indexOf(SEQ);
    const seq = at < 0 ? 0 : Number.parseInt(call.toString('latin1', at + SEQ.length, at + 20), 10);
    if (seq <= this.#through && !call.includes(HEARTBEAT)) return;
    this.#through = Math.max(this.#through, seq);
    const position = { epoch: this.#epoch, applied_through: this.#through };
    const engine = { kind: 'none', version: null, online: true };
    const args = { client_id: clientId, position, policy_hash: null, ready: true, healthy: true, engine, since: 0 };
    const report = { method: 'report', arguments: { ...args, at: Date.now() }, call_id: 'report' };
    this.#send(OPCODE.text, Buffer.from(JSON.stringify({ request: report, response: null })));
  }

  #answer(call: Buffer): void {
    const id = /"call_id": ?"(\w+)"/.exec(call.toString('latin1', Math.max(0, call.lastIndexOf(CALL_ID))))?.[1];
    if (id === undefined) return; // an answer, not a call
    this.#send(
      OPCODE.text,
      Buffer.from(`{"request": null, "response": {"result": "None", "result_type": "str", "call_id": "${id}"}}`),
    );
  }

  /** A client must mask what it sends; with zeros this changes nothing. */
  #send(opcode: number, payload: Buffer): void {
    const long = payload.length >= 126;
    const head = Buffer.alloc(long ? 8 : 6);
    head[0] = 0x80 | opcode;
    head[1] = 0x80 | (long ? 126 : payload.length);
    if (long) head.writeUInt16BE(payload.length, 2);
    this.#socket.write(Buffer.concat([head, payload]));
  }
}
