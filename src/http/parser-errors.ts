import { type IncomingMessage, maxHeaderSize, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { SyncError } from '../lib/errors.js';
import { rawRefusal } from '../lib/raw-refusal.js';

/** An error of Node's parser: `reason` is its sentence about the bytes. */
type ParserError = NodeJS.ErrnoException & { readonly reason?: string };

/** What a caller is told of what Node could not read; it is no request, so that no route and no hook sees it. */
export function parserRefusal({ code, reason }: ParserError): SyncError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new SyncError('headers_too_large', `request line and headers are larger than ${maxHeaderSize} bytes`);
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new SyncError('body_too_large', 'the extensions of a chunk of the body are larger than they may be');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new SyncError('request_timeout', 'the request did not arrive as a whole in time');
    default: {
      const why = reason === undefined ? '' : `: ${reason}`;
      return new SyncError('request_invalid', `the request cannot be read as HTTP${why}`, { status: 400 });
    }
  }
}

/** Answers what Node could not parse. */
export function answerParserError(error: ParserError, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return;
  if (socket.writable) socket.write(rawRefusal(parserRefusal(error)));
  socket.destroy();
}

/**
 * Refuses, with the body of all errors, what Node would refuse with an empty one: a request of HTTP/1.1 without `Host` (RFC 9112, 3.2; the
 * server must be made with `requireHostHeader: false`), and an expectation that nobody knows.
 */
export function useProtocolChecks(app: FastifyInstance): void {
  app.addHook('onRequest', ({ raw: { headers, httpVersion } }, _reply, done) => {
    const isMissing = headers.host === undefined && httpVersion === '1.1';
    done(isMissing ? new SyncError('request_invalid', 'the request has no header Host', { status: 400 }) : undefined);
  });
  (app.server as Server).on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    const text = `only "100-continue" can be expected, not ${JSON.stringify(String(request.headers.expect).slice(0, 100))}`;
    const error = new SyncError('request_invalid', text, { status: 417 });
    const body = Buffer.from(JSON.stringify({ detail: error.message }));
    const type = { 'content-type': 'application/json', 'content-length': body.length };
    response.writeHead(error.status, { ...type, 'x-sync-error': error.code, connection: 'close' }).end(body);
  });
}
