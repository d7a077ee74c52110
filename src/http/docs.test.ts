import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { z } from 'zod';
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
    tag: 'Things',
    summary: 'Publish',
    query: z.object({ wait: z.string().optional().describe('How long') }),
    body: dataUpdate,
    answers: { 200: { description: 'Done', schema: peerDataConfig } },
  },
  () => ({}),
);
addRoute(app, { method: 'GET', path: '/', access: 'everyone', tag: 'Things', summary: 'Look' }, () => ({}));
docsRoutes(app, { title: 'T', version: '1', description: 'For a test' }, { log: silentLogger() });
after(() => app.close());

test('the OpenAPI document says of each route what it takes, answers, and who may call it', async () => {
  const answer = await app.inject('/openapi.json');
  assert.equal(answer.statusCode, 200);
  const document = answer.json();
  assert.match(document.openapi, /^3\.1\./);
  assert.deepEqual(Object.keys(document.paths), ['/things/{key}', '/', '/openapi.json', '/docs', '/docs/*']);
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
  assert.deepEqual(Object.keys(post.responses), ['200', '401', '422']);
  assert.deepEqual(document.paths['/'].get.security, []);
});

test('the documentation page and all its parts come from here', async () => {
  const page = await app.inject('/docs');
  const target = page.statusCode === 302 ? String(page.headers.location) : '/docs';
  const index = await app.inject(new URL(target, 'http://here/docs').pathname);
  assert.equal(index.statusCode, 200);
  assert.match(String(index.headers['content-type']), /text\/html/);
  const parts = [...index.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? '');
  assert(parts.length >= 3, 'scripts and styles');
  for (const part of parts) {
    const url = new URL(part, 'http://here/docs/');
    assert.equal(url.host, 'here', part);
    assert.equal((await app.inject(url.pathname)).statusCode, 200, url.pathname);
  }
});
