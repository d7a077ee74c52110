import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { dirname, join, posix, relative, sep } from 'node:path';
import express5, { type RequestHandler, type Response } from 'express';
// @ts-expect-error it has no types; as far as it is used here those of Express 5 fit
import express4 from 'express4';
import { type FastifyInstance, type FastifyReply, type FastifyServerOptions, fastify } from 'fastify';
import type { Decider } from '../../src/client/decisions/decision.js';
import { Decisions } from '../../src/client/decisions/decisions.js';
import { silentLogger } from '../../src/lib/observe/log.js';
import { policyGuard as expressGuard } from '../../src/middleware/express.js';
import { policyGuard as fastifyGuard } from '../../src/middleware/fastify.js';

/** What was really served: the resource by its own name, and the route as it is declared; null: by no route. */
export interface Served {
  readonly path: readonly string[];
  readonly route: string | null;
}

/** An application that says what it serves, behind a guard whose policy allows everything. */
export interface GuardedSite extends AsyncDisposable {
  readonly name: string;
  readonly port: number;
  /** Whether `/A` and `/a` are two addresses, as the application has set its routers and told the guard. */
  readonly caseSensitive: boolean;
  /** Where the guard stands: it knows the route only there where the router has chosen one. */
  readonly knowsRoute: boolean;
  /** Whether each request meets one guard only. */
  readonly hasOneGuard: boolean;
  /** What the policy has been told, in order. */
  readonly told: readonly Told[];
}

/** What the policy was told of a request. */
export interface Told {
  readonly path: readonly string[];
  readonly route: string | null;
}

/** Files of the sites: a file's name is the resource. */
export const FILES = ['public/readme.txt', 'admin/secret.txt', 'admin/Readme.txt', 'a b/ä.txt'];

type Place = 'use' | 'mount' | 'route';
const PLACES: readonly Place[] = ['use', 'mount', 'route'];
const EITHER = [false, true];

/** Writes the files that static routes serve. */
export async function writeFiles(root: string): Promise<void> {
  for (const file of FILES) {
    await mkdir(dirname(join(root, file)), { recursive: true });
    await writeFile(join(root, file), file);
  }
}

/** Express 4 and 5, each way to set their routers, the guard in each place. */
export function expressSites(root: string): Promise<GuardedSite[]> {
  const versions = { 'Express 4': express4 as typeof express5, 'Express 5': express5 };
  return Promise.all(
    Object.entries(versions).flatMap(([version, express]) =>
      EITHER.flatMap((caseSensitive) =>
        EITHER.flatMap((strict) =>
          PLACES.map((place) => expressSite(version, express, { caseSensitive, strict }, place, root)),
        ),
      ),
    ),
  );
}

/** Fastify, with each option of its router. */
export function fastifySites(root: string): Promise<GuardedSite[]> {
  const options: FastifyServerOptions[] = [
    {},
    { routerOptions: { caseSensitive: false } },
    { routerOptions: { ignoreTrailingSlash: true } },
    { routerOptions: { ignoreDuplicateSlashes: true } },
    { routerOptions: { useSemicolonDelimiter: true } as object }, // its types do not know it
    { routerOptions: { caseSensitive: false, ignoreTrailingSlash: true, ignoreDuplicateSlashes: true } },
    // The router reads what this returns.
    { rewriteUrl: ({ url = '' }) => (url.startsWith('/old/') ? `/admin/${url.slice('/old/'.length)}` : url) },
  ];
  return Promise.all(options.map((each) => fastifySite(each, root)));
}

/** The name of a file, with a slash at the end or without. */
function named(segments: readonly string[]): readonly string[] {
  return segments.at(-1) === '' ? segments.slice(0, -1) : segments;
}

function policy(): { told: Told[]; client: Decider } {
  const told: Told[] = [];
  const client = new Decisions({}, { log: silentLogger() });
  client.attach({
    engine: {
      decide: ({ input = '{}' }) => {
        const { path, route } = JSON.parse(input) as Told;
        told.push({ path, route });
        return { text: 'true', by: 'compiled', policy: 'p' };
      },
    },
    ...{ isReady: () => true, isFilled: () => true, reason: () => undefined },
    ...{ policy: () => 'p', position: () => undefined, serverCutOffSinceMs: () => undefined },
  });
  return { told, client };
}

async function expressSite(
  version: string,
  express: typeof express5,
  settings: { caseSensitive: boolean; strict: boolean },
  place: Place,
  root: string,
): Promise<GuardedSite> {
  const { told, client } = policy();
  const { caseSensitive, strict } = settings;
  const app = express();
  app.set('case sensitive routing', caseSensitive);
  app.set('strict routing', strict);
  const guard = expressGuard({ client, path: 'app/http/allow', caseSensitive });
  const all: RequestHandler[] = place === 'use' ? [guard] : [];
  const mounted: RequestHandler[] = place === 'mount' ? [guard] : [];
  const routed: RequestHandler[] = place === 'route' ? [guard] : [];
  const own: RequestHandler[] = place === 'use' ? [] : [guard];
  const serve = (route: string, pathOf: (params: Record<string, string | string[]>) => (string | undefined)[]) => {
    const handler: RequestHandler = ({ params }, response) => {
      response.json({ path: pathOf(params as Record<string, string | string[]>), route });
    };
    return handler;
  };
  const text = (value: string | string[] | undefined) => (Array.isArray(value) ? value.join('/') : value);
  const files = (prefix: string[]) =>
    express.static(root, {
      index: false,
      redirect: false,
      setHeaders: (response: Response, file: string) => {
        response.setHeader('x-served', encodeURI([...prefix, ...relative(root, file).split(sep)].join('/')));
      },
    });

  // A route that lets the request pass is not the one that answers it.
  app.get(version === 'Express 4' ? '*' : '/{*all}', (_request, _response, next) => next());
  if (all.length > 0) app.use(...all);

  app.get(
    '/public/info',
    ...own,
    serve('/public/info', () => ['public', 'info']),
  );
  app.get(
    '/admin/secret',
    ...own,
    serve('/admin/secret', () => ['admin', 'secret']),
  );
  app.get(
    '/Mixed/Case',
    ...own,
    serve('/Mixed/Case', () => ['Mixed', 'Case']),
  );
  // Before the next one: `/documents/%6eew` is the document to a router that compares encoded texts.
  app.get(
    '/documents/new',
    ...own,
    serve('/documents/new', () => ['documents', 'new']),
  );
  app.get(
    '/documents/:id',
    ...own,
    serve('/documents/:id', ({ id }) => ['documents', text(id)]),
  );
  app.get(
    '/list',
    ...own,
    serve('/list', () => ['list']),
  );
  if (strict)
    app.get(
      '/list/',
      ...own,
      serve('/list/', () => ['list']),
    );
  const [wildcard, rest] = version === 'Express 4' ? ['/files/*', '0'] : ['/files/*rest', 'rest'];
  app.get(
    wildcard,
    ...own,
    serve(wildcard, (params) => {
      const value = params[rest];
      return ['files', ...named(Array.isArray(value) ? value : (value ?? '').split('/'))];
    }),
  );

  const acme = express.Router(settings);
  acme.get(
    '/',
    ...routed,
    serve('/acme/', () => ['acme']),
  );
  acme.get(
    '/report',
    ...routed,
    serve('/acme/report', () => ['acme', 'report']),
  );
  acme.get(
    '/people/:name',
    ...routed,
    serve('/acme/people/:name', ({ name }) => ['acme', 'people', text(name)]),
  );
  const deeper = express.Router(settings);
  deeper.get(
    '/year/:year',
    ...routed,
    serve('/acme/deeper/year/:year', ({ year }) => ['acme', 'deeper', 'year', text(year)]),
  );
  acme.use('/deeper', deeper);
  app.use('/acme', ...mounted, acme);

  const tenants = express.Router({ ...settings, mergeParams: true });
  tenants.get('/docs/:id', ...routed, (request, response) => {
    const { tenant, id } = request.params as Record<string, string>;
    response.json({ path: ['t', tenant, 'docs', id], route: `/t/${tenant}/docs/:id` });
  });
  app.use('/t/:tenant', ...mounted, tenants);

  const part = express();
  part.set('case sensitive routing', caseSensitive);
  part.get(
    '/news',
    ...routed,
    serve('/part/news', () => ['part', 'news']),
  );
  app.use('/part', ...mounted, part);

  app.use('/assets', ...own, files(['assets']));
  app.use(...own, files([]));
  // Express knows an error handler by its four parameters.
  app.use((error: unknown, _request: unknown, response: Response, _next: unknown) => {
    response.status((error as { status?: number }).status ?? 500).json({ message: String(error) });
  });

  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const ways = [caseSensitive && 'caseSensitive', strict && 'strict', `guard in ${place}`].filter(Boolean);
  return {
    name: [version, ...ways].join(', '),
    port: (server.address() as AddressInfo).port,
    ...{ caseSensitive, told, knowsRoute: place === 'route', hasOneGuard: place === 'use' },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function fastifySite(options: FastifyServerOptions, root: string): Promise<GuardedSite> {
  const { told, client } = policy();
  const app = fastify(options) as FastifyInstance;
  await app.register(fastifyGuard, { client, path: 'app/http/allow' });
  type Params = Readonly<Record<string, string>>;
  const serve = (on: FastifyInstance, url: string, pathOf: (params: Params) => (string | undefined)[]): void => {
    on.get(url, async ({ params, routeOptions }) => ({ path: pathOf(params as Params), route: routeOptions.url }));
  };
  serve(app, '/public/info', () => ['public', 'info']);
  serve(app, '/admin/secret', () => ['admin', 'secret']);
  serve(app, '/Mixed/Case', () => ['Mixed', 'Case']);
  serve(app, '/documents/new', () => ['documents', 'new']);
  serve(app, '/documents/:id', ({ id }) => ['documents', id]);
  serve(app, '/list', () => ['list']);
  if (options.routerOptions?.ignoreTrailingSlash !== true) serve(app, '/list/', () => ['list']);
  serve(app, '/files/*', (params) => ['files', ...named((params['*'] ?? '').split('/'))]);
  serve(app, '/pair/:a-:b', ({ a, b }) => ['pair', `${a}-${b}`]);
  serve(app, '/numbers/:n(^\\d+$)', ({ n }) => ['numbers', n]);
  serve(app, '/maybe/:x?', ({ x }) => (x === undefined || x === '' ? ['maybe'] : ['maybe', x]));
  await app.register(
    async (acme) => {
      serve(acme, '/', () => ['acme']);
      serve(acme, '/report', () => ['acme', 'report']);
      serve(acme, '/people/:name', ({ name }) => ['acme', 'people', name]);
      await acme.register(
        async (deeper) => serve(deeper, '/year/:year', ({ year }) => ['acme', 'deeper', 'year', year]),
        { prefix: '/deeper' },
      );
    },
    { prefix: '/acme' },
  );
  await app.register(async (t) => serve(t, '/docs/:id', ({ tenant, id }) => ['t', tenant, 'docs', id]), {
    prefix: '/t/:tenant',
  });
  // As file servers do: whatever the wildcard has matched is a path, dots and all.
  app.get('/assets/*', async (request, reply: FastifyReply) => {
    const file = posix.normalize(`/${(request.params as Params)['*']}`).slice(1);
    if (!FILES.includes(file)) return reply.code(404).send({});
    return { path: ['assets', ...relative(root, join(root, file)).split(sep)], route: '/assets/*' };
  });
  const url = new URL(await app.listen({ port: 0, host: '127.0.0.1' }));
  const { caseSensitive = true } = options.routerOptions ?? {};
  return {
    name: `Fastify ${JSON.stringify(options.routerOptions ?? Object.keys(options))}`,
    port: Number(url.port),
    ...{ caseSensitive, told, knowsRoute: true, hasOneGuard: true },
    [Symbol.asyncDispose]: () => app.close(),
  };
}
