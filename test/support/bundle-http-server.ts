import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listening } from './http-server.js';

/**
 * A bundle server as an operator has one: `GET <base>/bundle.tar.gz`; `/moved/bundle.tar.gz` redirects there. `await using`
 * ends it.
 */
export interface BundleHttpServer extends AsyncDisposable {
  /** The base. */
  readonly url: string;
  /** Requests so far, with the status that each was answered with. */
  readonly requests: readonly { readonly headers: IncomingMessage['headers']; readonly status: number }[];
  /** Number of answers with this status. */
  answered(status: number): number;
  /** Serves this archive from now on. */
  put(archive: Buffer): Promise<void>;
  /** Answers in another way from now on; undefined: as it should. `'silent'`: never; `'cut'`: half of the archive. */
  misbehave(how: Misbehaviour | undefined): void;
}

/** What a bundle server may do wrong. */
export type Misbehaviour = 'silent' | 'cut' | { status: number; headers?: Record<string, string>; body?: string };

/**
 * Starts a bundle server. `etags`: whether it sends entity tags; `fixedEtag`: one for every archive; `token`: the bearer
 * token that it asks for.
 */
export async function bundleHttpServer(
  options: { etags?: 'none' | 'sent' | 'ignored'; fixedEtag?: string; token?: string } = {},
): Promise<BundleHttpServer> {
  let archive: Buffer | undefined;
  let wrong: Misbehaviour | undefined;
  const requests: { headers: IncomingMessage['headers']; status: number }[] = [];

  const serve = ({ url, headers }: IncomingMessage, response: ServerResponse): void => {
    if (options.token !== undefined && headers.authorization !== `Bearer ${options.token}`) {
      response.writeHead(401).end(`wrong token ${headers.authorization}`);
    } else if (url === '/moved/bundle.tar.gz') response.writeHead(302, { location: '/base/bundle.tar.gz' }).end();
    else if (wrong === 'silent') return;
    else if (typeof wrong === 'object') response.writeHead(wrong.status, wrong.headers).end(wrong.body);
    else if (archive === undefined || url !== '/base/bundle.tar.gz') response.writeHead(404).end();
    else if (wrong === 'cut') {
      response.writeHead(200, { 'content-length': archive.length });
      response.write(archive.subarray(0, archive.length / 2), () => response.destroy());
    } else {
      const etag = options.fixedEtag ?? `"${createHash('md5').update(archive).digest('hex')}"`;
      if ((options.etags ?? 'sent') === 'sent' && headers['if-none-match'] === etag) response.writeHead(304).end();
      else response.writeHead(200, options.etags === 'none' ? {} : { etag }).end(archive);
    }
  };
  const server = createServer((request, response) => {
    serve(request, response);
    requests.push({ headers: request.headers, status: response.statusCode });
  });
  const listener = await listening(server);
  return {
    ...listener,
    url: `${listener.url}/base`,
    requests,
    answered: (status) => requests.filter((request) => request.status === status).length,
    put: async (bytes) => {
      archive = bytes;
    },
    misbehave: (how) => {
      wrong = how;
    },
  };
}
