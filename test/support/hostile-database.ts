import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

/** A message of Postgres; `length` in place of the one that it has. */
export function message(type: string, body: Buffer | string = '', length?: number): Buffer {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(body, 'latin1');
  const head = Buffer.alloc(5);
  head.write(type, 'latin1');
  head.writeUInt32BE(length ?? bytes.length + 4, 1);
  return Buffer.concat([head, bytes]);
}

/** A number of two bytes, or of four. */
export function int(value: number, bytes: 2 | 4 = 2): Buffer {
  const buffer = Buffer.alloc(bytes);
  buffer.writeIntBE(value, 0, bytes);
  return buffer;
}

/** The end of a statement. */
export function done(tag: string): Buffer {
  return Buffer.concat([message('C', `${tag}\0`), message('Z', 'I')]);
}

/** Columns of rows, of this type: 25 is text. */
export function columns(names: readonly string[], type = 25): Buffer {
  const column = (name: string): Buffer =>
    Buffer.concat([Buffer.from(`${name}\0`), int(0, 4), int(0), int(type, 4), int(-1), int(-1, 4), int(0)]);
  return message('T', Buffer.concat([int(names.length), ...names.map(column)]));
}

/** One row; null: no value. */
export function row(...values: readonly (string | null)[]): Buffer {
  const cell = (value: string | null): Buffer =>
    value === null ? int(-1, 4) : Buffer.concat([int(Buffer.byteLength(value), 4), Buffer.from(value)]);
  return message('D', Buffer.concat([int(values.length), ...values.map(cell)]));
}

/** What a database says in place of what belongs there; without an answer it has said everything. */
export interface DatabaseAnswers {
  /** To whoever begins, after which it is open. */
  readonly begin?: ((socket: Socket) => void) | undefined;
  /** To whoever asks for rows. */
  readonly fetch?: ((socket: Socket) => void) | undefined;
}

/** Speaks as much of Postgres' protocol as a read needs, without TLS. `await using` ends it. */
export async function startDatabase({ begin, fetch }: DatabaseAnswers) {
  const sockets = new Set<Socket>();
  let cut = 0;
  const server = createServer((socket) => {
    let isOpen = false;
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      sockets.delete(socket);
      cut += 1;
    });
    socket.on('data', (data) => {
      const text = data.toString('latin1');
      if (!isOpen) {
        isOpen = true;
        if (begin !== undefined) begin(socket);
        else socket.write(Buffer.concat([message('R', int(0, 4)), message('Z', 'I')]));
      } else if (text.includes('FETCH')) {
        if (fetch !== undefined) fetch(socket);
        else socket.write(Buffer.concat([columns(['row', 'key']), row('{"a":1}', null), done('FETCH 1')]));
      } else if (text.startsWith('Q')) socket.write(done('BEGIN'));
      else if (!text.startsWith('X')) {
        socket.write(Buffer.concat([message('1'), message('2'), message('n'), done('DECLARE CURSOR')]));
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    /** An address of an entry. */
    url: `postgresql://u:p@127.0.0.1:${port}/x?sslmode=disable`,
    /** Connections that have ended. */
    ended: () => cut,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

/** Writes without end, for as long as somebody reads. */
export function withoutEnd(socket: Socket, chunk: Buffer): void {
  while (!socket.destroyed) {
    if (socket.write(chunk)) continue;
    socket.once('drain', () => withoutEnd(socket, chunk));
    return;
  }
}
