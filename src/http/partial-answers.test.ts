import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as z from 'zod';
import { ANONYMOUS, type Authenticator } from '../auth/caller.js';
import { ERROR_CODES, SyncError } from '../lib/errors.js';
import { silentLogger } from '../lib/observe/log.js';
import { insider } from '../wire/insider.js';
import { createHttpApp } from './app.js';
import { addRoute } from './route.js';

/** Takes `Bearer free` and `Bearer limited` for tokens of a client. */
const byName: Authenticator = {
  enabled: true,
  authenticate: async (authorization) => {
    const name = authorization?.replace('Bearer ', '');
    if (name !== 'free' && name !== 'limited') throw new SyncError('unauthorized', 'no token');
    return { ...ANONYMOUS, peerType: 'client', permittedTopics: name === 'limited' ? new Set(['a']) : undefined };
  },
};

const answer = z.object({ state: z.enum(['ok', 'failing']), error: insider(z.string()) });
const FAILING = { state: 'failing', error: 'connect ECONNREFUSED 10.0.0.7:5432' } as const;
const ERRORS: Readonly<Record<string, SyncError>> = {
  backbone: new SyncError('backbone_unavailable', 'postgres at 10.0.0.7 does not answer'),
  policy: new SyncError('policy_not_ready', 'git says no', {
    detail: 'policy repo is not ready: git says no',
    outside: 'policy repo is not ready',
  }),
  off: new SyncError('not_enabled', 'SYNC_STATISTICS_ENABLED is not set'),
  own: new SyncError('request_invalid', 'you sent an x'),
};

function appWith(authenticator?: Authenticator): ReturnType<typeof createHttpApp> {
  const app = createHttpApp({ bodyLimitBytes: 1000, ...(authenticator && { authenticator }) }, { log: silentLogger() });
  const about = { method: 'GET', tag: 'T', summary: 'Look' } as const;
  const responses = { 200: { description: 'So it is', schema: answer }, 503: { description: 'Or so', schema: answer } };
  const words = { access: 'everyone', strangers: 'words', insiders: ['client'] } as const;
  const own = { access: 'token', limited: 'own' } as const;
  addRoute(app, { ...about, ...words, path: '/health', responses }, ({ reply }) => reply.code(503).send(FAILING));
  addRoute(
    app,
    { ...about, ...words, path: '/lazy', responses: { 200: { description: 'x', schema: async () => answer } } },
    () => FAILING,
  );
  addRoute(app, { ...about, ...own, path: '/own', responses }, () => FAILING);
  addRoute(app, { ...about, ...words, path: '/proof', responses }, ({ request }) => {
    request.isInsider = true;
    return FAILING;
  });
  addRoute(app, { ...about, ...own, path: '/error/:name' }, ({ request }) => {
    throw ERRORS[(request.params as { name: string }).name] ?? new Error('none');
  });
  return app;
}

async function get(app: ReturnType<typeof createHttpApp>, url: string, name?: string): Promise<[number, unknown]> {
  const headers = name === undefined ? {} : { authorization: `Bearer ${name}` };
  const { statusCode, body } = await app.inject({ method: 'GET', url, headers });
  return [statusCode, JSON.parse(body)];
}

test('who has no token, none that counts, or one with limits gets the status and no text; all else stays as it is', async () => {
  const app = appWith(byName);
  for (const who of [undefined, 'made up', 'limited']) {
    assert.deepEqual(await get(app, '/health', who), [503, { state: 'failing' }], who);
    assert.deepEqual(await get(app, '/lazy', who), [200, { state: 'failing' }], who);
    assert.deepEqual(await get(app, '/proof', who), [200, FAILING], who);
  }
  assert.deepEqual(await get(app, '/own', 'limited'), [200, { state: 'failing' }]);
  for (const url of ['/health', '/lazy', '/own', '/proof'])
    assert.deepEqual(await get(app, url, 'free'), [url === '/health' ? 503 : 200, FAILING], url);
});

test('an answer that has more than others get is kept by nobody in between', async () => {
  const app = appWith(byName);
  const caching = async (url: string): Promise<unknown> =>
    (await app.inject({ url, headers: { authorization: 'Bearer free' } })).headers['cache-control'];
  assert.deepEqual([await caching('/health'), await caching('/own')], ['no-store', undefined]);
});

test('with authentication off everybody gets everything', async () => {
  const app = appWith();
  for (const who of [undefined, 'limited'])
    assert.deepEqual(
      [await get(app, '/health', who), await get(app, '/own', who)],
      [
        [503, FAILING],
        [200, FAILING],
      ],
    );
});

test('why something behind the program fails is for tokens without limits; others get what the code means', async () => {
  const app = appWith(byName);
  const detail = async (name: string, who: string): Promise<unknown> =>
    ((await get(app, `/error/${name}`, who))[1] as { detail: unknown }).detail;
  assert.equal(await detail('backbone', 'free'), 'postgres at 10.0.0.7 does not answer');
  assert.equal(await detail('backbone', 'limited'), ERROR_CODES.backbone_unavailable.cause);
  assert.equal(await detail('policy', 'free'), 'policy repo is not ready: git says no');
  assert.equal(await detail('policy', 'limited'), 'policy repo is not ready');
  for (const name of ['off', 'own'])
    assert.equal(await detail(name, 'limited'), ERRORS[name]?.message, 'what the caller itself did, or what is off');
});
