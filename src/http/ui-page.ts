import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { SyncError } from '../lib/errors.js';
import { isLoopbackHost } from './host-name.js';
import { addRoute } from './route.js';
import { encodingFor, holdsTag, readUiFiles, type UiFile, type UiFiles } from './ui-files.js';

/** The page loads its own files and calls this API, and nothing else. Nothing of it is inline. */
export const UI_CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS = {
  'content-security-policy': UI_CSP,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
};

/** The name of an asset has the hash of its content. */
const IMMUTABLE = 'public, max-age=31536000, immutable';

/**
 * `GET /ui`, the live page, and its files below `/ui/assets/`. They are the same for everyone: what
 * the page shows comes from the routes that it calls. They are read at the first request and kept
 * from then on, so that an upgrade on the disk never mixes two builds. `read`: where from; default:
 * what the build made.
 */
export function uiPageRoutes(app: FastifyInstance, read: () => Promise<UiFiles | undefined> = readUiFiles): void {
  let reading: Promise<UiFiles | undefined> | undefined;
  const files = (): Promise<UiFiles | undefined> => {
    reading ??= read().catch((error: unknown) => {
      reading = undefined; // the next request tries again
      throw error;
    });
    return reading;
  };

  addRoute(
    app,
    {
      method: 'GET',
      path: '/ui',
      access: 'everyone',
      strangers: 'all',
      tag: 'Live page',
      summary: 'The live page of the fleet',
      description: 'Without authentication it is open under loopback names only (localhost, 127.0.0.1, [::1]).',
      responses: {
        200: { description: 'The page', contentType: 'text/html' },
        304: { description: 'It has not changed' },
        403: { description: 'Authentication is off, and the name is not a loopback one', contentType: 'text/html' },
        503: { description: 'This checkout has no built page', contentType: 'text/html' },
      },
    },
    async ({ request, reply }) => {
      const page = (await files())?.get('index.html');
      if (page === undefined) return sendNotice(reply, 503, NOT_BUILT);
      return send(request, reply.header('cache-control', 'no-cache'), page);
    },
  );

  addRoute(
    app,
    {
      method: 'GET',
      path: '/ui/assets/:file',
      access: 'everyone',
      strangers: 'all',
      tag: 'Live page',
      summary: 'A file of the live page',
      responses: {
        200: { description: 'The file', contentType: '*/*' },
        304: { description: 'It has not changed' },
        404: { description: 'The page has no such file' },
      },
    },
    async ({ request, reply }) => {
      const { file: name = '' } = request.params as { file?: string };
      const file = (await files())?.get(`assets/${name}`);
      if (file === undefined) throw new SyncError('not_found', `the page has no file ${JSON.stringify(name)}`);
      return send(request, reply.header('cache-control', IMMUTABLE), file);
    },
  );
}

function send({ headers }: FastifyRequest, reply: FastifyReply, file: UiFile): FastifyReply {
  const encoding = encodingFor([headers['accept-encoding'] ?? []].flat().join(','));
  const tag = `"${file.hash}-${encoding}"`;
  reply.headers({ ...HEADERS, etag: tag, vary: 'accept-encoding' });
  if (holdsTag(headers['if-none-match'], tag)) return reply.code(304).send();
  if (encoding !== 'identity') reply.header('content-encoding', encoding);
  return reply.type(file.type).send(file[encoding]);
}

/**
 * Without authentication only a browser on the machine itself is shown the fleet: every route below
 * `/ui` refuses names that are not loopback ones (`page_not_open`), as a web page of another site
 * could otherwise give its own name our address and read along. Call it before those routes are
 * added. The files of the page are open: they say nothing about a fleet.
 */
export function openUiOnLoopbackOnly(app: FastifyInstance): void {
  app.addHook('onRoute', (route) => {
    if (!/^\/ui(?:\/(?!assets\/)|$)/.test(route.url)) return;
    const check = async ({ headers: { host } }: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
      if (isLoopbackHost(host)) return undefined;
      if (route.url === '/ui') return sendNotice(reply, 403, notOpen(host));
      const text = `without authentication the live page is open under loopback names only, and this is ${shown(host)}`;
      throw new SyncError('page_not_open', text);
    };
    route.onRequest = [check, ...[route.onRequest ?? []].flat()];
  });
}

/** What the page says where it cannot be shown: a heading, and paragraphs of HTML. */
interface Notice {
  readonly heading: string;
  readonly paragraphs: readonly string[];
}

const NOT_BUILT: Notice = {
  heading: 'The page is not built',
  paragraphs: [
    'This PolicySync runs from a checkout in which vite could not be run, so it has no live page.',
    'Run <code>npm ci</code> and <code>npm run build</code> there, and start the server again.',
    'In a terminal, <code>policysync status --watch</code> shows the same.',
  ],
};

function notOpen(host: string | undefined): Notice {
  return {
    heading: 'This page is open on the machine of the server only',
    paragraphs: [
      'The server runs without authentication. So it shows its fleet under the names <code>localhost</code>, ' +
        `<code>127.0.0.1</code> and <code>[::1]</code> only, and this is ${shown(host)}.`,
      'To open it from here, set <code>SYNC_AUTH_PUBLIC_KEY</code>, <code>SYNC_AUTH_PRIVATE_KEY</code> and ' +
        '<code>SYNC_AUTH_MASTER_TOKEN</code> at the server, and sign in with a token: <code>docs/how-to/see-the-fleet.md</code> has the commands.',
      'Or forward a port, such as <code>ssh -L 7002:localhost:7002 &lt;the server&gt;</code>, and open ' +
        '<code>http://localhost:7002/ui</code>.',
    ],
  };
}

function shown(host: string | undefined): string {
  return host === undefined ? 'a request without a name' : escaped(JSON.stringify(host.slice(0, 100)));
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

function sendNotice(reply: FastifyReply, status: number, { heading, paragraphs }: Notice): FastifyReply {
  const content = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${heading} · PolicySync</title>
</head>
<body>
<main>
<h1>${heading}</h1>
${paragraphs.map((text) => `<p>${text}</p>`).join('\n')}
</main>
</body>
</html>
`;
  return reply
    .code(status)
    .headers({ ...HEADERS, 'cache-control': 'no-store' })
    .type('text/html; charset=utf-8')
    .send(content);
}
