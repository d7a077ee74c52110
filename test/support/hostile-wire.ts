import { connect } from 'node:net';

/** Headers in order; a name may come several times. */
export type Headers = readonly (readonly [name: string, value: string])[];

/** One request as bytes: nothing corrects it on its way, as an HTTP library would. */
export interface RawRequest {
  readonly method: string;
  /** Request target, as it stands in the request line. */
  readonly target: string;
  readonly headers: Headers;
  /** Undefined: there is no body, and no header says that there is one. */
  readonly body?: Buffer | undefined;
}

/** What came back. */
export interface RawAnswer {
  /** 0: the connection was closed without an answer. */
  readonly status: number;
  /** Status line, headers and body. */
  readonly text: string;
}

/** A stream of events that never ends by itself, with the first of them. */
const STREAM = /^content-type: text\/event-stream\b[\s\S]*^event: /im;
/** Longest wait for the end of an answer. */
const WITHIN_MS = 10_000;

/** The bytes of a request. Header texts go out as latin1, each character one byte. */
export function requestBytes({ method, target, headers, body }: RawRequest): Buffer {
  const named = new Set(headers.map(([name]) => name.toLowerCase()));
  const all = [
    ...(named.has('host') ? [] : [['Host', 'localhost'] as const]),
    ...(named.has('connection') ? [] : [['Connection', 'close'] as const]),
    ...headers,
    ...(body === undefined || named.has('content-length') || named.has('transfer-encoding')
      ? []
      : [['Content-Length', String(body.length)] as const]),
  ];
  const head = [`${method} ${target} HTTP/1.1`, ...all.map(([name, value]) => `${name}: ${value}`), '', ''];
  return Buffer.concat([Buffer.from(head.join('\r\n'), 'latin1'), body ?? Buffer.alloc(0)]);
}

/**
 * Sends bytes over a connection of its own and reads until the other side closes it, or its first event where it streams those.
 * `finish`: then say that nothing more comes. Rejects when it stays open.
 */
export function exchange(port: number, bytes: Buffer, { finish = false } = {}): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    const chunks: Buffer[] = [];
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`no end of the answer within ${WITHIN_MS} ms: ${text().slice(0, 500)}`));
    }, WITHIN_MS);
    const text = (): string => Buffer.concat(chunks).toString('latin1');
    socket.on('data', (chunk) => {
      chunks.push(chunk);
      if (STREAM.test(text())) socket.destroy();
    });
    // A server may refuse before it has read everything; what it said until then counts.
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(timer);
      resolve({ status: Number(/^HTTP\/1\.1 (\d{3})/.exec(text())?.[1] ?? 0), text: text() });
    });
    socket.write(bytes);
    if (finish) socket.end();
  });
}

/** A WebSocket frame from a client, masked with zeros; the header says exactly what is asked for. */
export function wsFrame(
  opcode: number,
  payload: Buffer,
  how: { fin?: boolean; rsv?: number; masked?: boolean; length?: bigint } = {},
): Buffer {
  const { fin = true, rsv = 0, masked = true, length = BigInt(payload.length) } = how;
  const first = Buffer.from([(fin ? 0x80 : 0) | (rsv << 4) | opcode]);
  const flag = masked ? 0x80 : 0;
  let size: Buffer;
  if (length < 126n) size = Buffer.from([flag | Number(length)]);
  else if (length < 65_536n) {
    size = Buffer.from([flag | 126, 0, 0]);
    size.writeUInt16BE(Number(length), 1);
  } else {
    size = Buffer.concat([Buffer.from([flag | 127]), Buffer.alloc(8)]);
    size.writeBigUInt64BE(length, 1);
  }
  return Buffer.concat([first, size, masked ? Buffer.alloc(4) : Buffer.alloc(0), payload]);
}

/** The upgrade request for a socket. */
export function upgradeBytes(headers: Headers, target = '/ws', method = 'GET'): Buffer {
  return requestBytes({
    method,
    target,
    headers: [
      ['Connection', 'Upgrade'],
      ['Upgrade', 'websocket'],
      ['Sec-WebSocket-Version', '13'],
      ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
      ...headers,
    ],
  });
}
