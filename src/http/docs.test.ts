import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { silentLogger } from '../lib/observe/log.js';
import { dataUpdate, peerDataConfig } from '../wire/data.js';
import { createHttpApp } from './app.js';
import { docsRoutes } from './docs.js';
import { addRoute } from './route.js';

function appWith({ isGuarded }: { isGuarded: boolean }): FastifyInstance {
  const app = createHttpApp({ bodyLimitBytes: 1024 }, { log: silentLogger() });
  after(() => app.close());
  const tag = 'Things';
  addRoute(
    app,
    {
      method: 'POST',
      path: '/things/:key',
      access: ['datasource'],
      limited: 'own',
      summary: 'Publish',
      query: z.object({ wait: z.string().optional().describe('How long') }),
      body: dataUpdate,
      responses: { 200: { description: 'Done', schema: peerDataConfig } },
      tag,
    },
    () => ({}),
  );
  addRoute(app, { method: 'GET', path: '/', access: 'everyone', strangers: 'all', tag, summary: 'Look' }, () => ({}));
  const more = { access: 'everyone', strangers: 'words', insiders: 'token' } as const;
  addRoute(app, { method: 'GET', path: '/more', ...more, tag, summary: 'Look closer' }, () => ({}));
  docsRoutes(app, { title: 'T & <co>', version: '1', description: 'For a test' }, isGuarded);
  return app;
}

const app = appWith({ isGuarded: true });

test('the OpenAPI document says of each route what it takes, answers, and who may call it', async () => {
  const answer = await app.inject('/openapi.json');
  assert.equal(answer.statusCode, 200);
  const document = answer.json();
  assert.match(document.openapi, /^3\.1\./);
  assert.deepEqual(Object.keys(document.paths), [
    '/things/{key}',
    '/',
    '/more',
    '/openapi.json',
    '/docs',
    '/docs/{part}',
  ]);
  const { post } = document.paths['/things/{key}'];
  assert.deepEqual(post.security, [{ bearer: [] }]);
  assert.match(post.description, /datasource/);
  assert.deepEqual(
    post.parameters.map(({ name, in: place }: { name: string; in: string }) => `${place} ${name}`),
    ['path key', 'query wait'],
  );
  const body = post.requestBody.content['application/json'].schema;
  assert.deepEqual(body.required, ['entries']);
  assert.deepEqual(body.properties.entries.items.properties.save_method.enum, ['PUT', 'PATCH', 'DELETE']);
  assert.deepEqual(Object.keys(post.responses), ['200', '401', '413', '422', 'default']);
  assert.deepEqual(document.paths['/'].get.security, []);
  assert.deepEqual(document.paths['/more'].get.security, [{}, { bearer: [] }]);
  assert.deepEqual(Object.keys(document.components.securitySchemes), ['bearer']);
});

test('the OpenAPI document knows no token where authentication is off', async () => {
  const document = (await appWith({ isGuarded: false }).inject('/openapi.json')).json();
  assert.equal(document.components.securitySchemes, undefined);
  for (const methods of Object.values<Record<string, { security: unknown; responses: object }>>(document.paths)) {
    for (const { security, responses } of Object.values(methods)) {
      assert.deepEqual(security, []);
      assert(!('401' in responses));
    }
  }
});

test('the OpenAPI document has no schema that is a mere yes or no, which generators of clients do not read', async () => {
  const lone: string[] = [];
  const look = (value: unknown, at: string): void => {
    if (typeof value !== 'object' || value === null) return;
    for (const [name, inner] of Object.entries(value)) {
      if (
        /^(?:items|prefixItems|not|anyOf|oneOf|allOf)$/.test(name) &&
        [inner].flat().some((one) => typeof one === 'boolean')
      )
        lone.push(`${at}/${name}`);
      look(inner, `${at}/${name}`);
    }
  };
  const document = (await app.inject('/openapi.json')).json();
  look(document.paths, '');
  assert.deepEqual(lone, []);
  const { callback } = document.paths['/things/{key}'].post.requestBody.content['application/json'].schema.properties;
  const [, pair] = callback.properties.callbacks.items.anyOf;
  assert.deepEqual([pair.prefixItems.length, pair.minItems, pair.maxItems], [2, 2, 2]);
});

test('the documentation page and all its parts come from here', async () => {
  const page = await app.inject('/docs');
  assert.equal(page.statusCode, 200);
  assert.match(String(page.headers['content-type']), /^text\/html/);
  assert.match(page.body, /<title>T &#38; &#60;co&#62;<\/title>/);
  const parts = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? '');
  assert.deepEqual(
    parts.map((part) => part.split('.').at(-1)),
    ['css', 'png', 'js', 'js'],
  );
  for (const part of parts) {
    const url = new URL(part, 'http://here/docs');
    assert.equal(url.host, 'here', part);
    const answer = await app.inject(url.pathname);
    assert.equal(answer.statusCode, 200, url.pathname);
    assert.match(String(answer.headers['content-type']), /^(?:text\/(?:css|javascript); charset=utf-8|image\/png)$/);
    assert(answer.rawPayload.length > 50);
  }
});

test('the page runs scripts of its own files alone, and is no frame of another', async () => {
  const { headers, body } = await app.inject('/docs');
  const rules = String(headers['content-security-policy']).split('; ');
  for (const rule of [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "frame-ancestors 'none'",
  ])
    assert(rules.includes(rule), `${rule} in ${rules}`);
  assert.deepEqual(body.match(/<script(?! src=)/g), null);
  assert.equal(headers['x-content-type-options'], 'nosniff');
});

test('a slash at the end of its address is no part, and there are no parts but its own', async () => {
  const answer = await app.inject('/docs/?a=1');
  assert.deepEqual([answer.statusCode, answer.headers.location], [308, '../docs']);
  for (const name of ['index.html', '..%2Fpackage.json', 'LICENSE', '__proto__', 'docs-page.js'])
    assert.equal((await app.inject(`/docs/${name}`)).statusCode, 404, name);
});
