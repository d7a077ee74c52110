import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import * as z from 'zod';
import { silentLogger } from '../lib/log.js';
import { dataUpdate, peerDataConfig } from '../wire/data.js';
import { createHttpApp } from './app.js';
import { docsRoutes } from './docs.js';
import { addRoute } from './route.js';

const app = createHttpApp({ bodyLimitBytes: 1024 }, { log: silentLogger() });
addRoute(
  app,
  {
    method: 'POST',
    path: '/things/:key',
    access: ['datasource'],
    limited: 'own',
    tag: 'Things',
    summary: 'Publish',
    query: z.object({ wait: z.string().optional().describe('How long') }),
    body: dataUpdate,
    responses: { 200: { description: 'Done', schema: peerDataConfig } },
  },
  () => ({}),
);
addRoute(
  app,
  { method: 'GET', path: '/', access: 'everyone', strangers: 'all', tag: 'Things', summary: 'Look' },
  () => ({}),
);
docsRoutes(app, { title: 'T & <co>', version: '1', description: 'For a test' });
after(() => app.close());

test('the OpenAPI document says of each route what it takes, answers, and who may call it', async () => {
  const answer = await app.inject('/openapi.json');
  assert.equal(answer.statusCode, 200);
  const document = answer.json();
  assert.match(document.openapi, /^3\.1\./);
  assert.deepEqual(Object.keys(document.paths), ['/things/{key}', '/', '/openapi.json', '/docs', '/docs/{part}']);
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
