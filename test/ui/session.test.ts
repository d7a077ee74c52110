import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApiError, createApi } from '../../ui/src/api.js';
import { createSession, mayAct } from '../../ui/src/session.js';

const SESSION = {
  ...{ signed_in: true, authentication: true, role: 'listener', subject: 'board', topics: null, paths: null },
  ...{ ends_at: null, version: '0.1.0' },
};
const OUT = { ...SESSION, signed_in: false, role: null, subject: null };

/** A server that gives these responses, one after the other. */
function setUp(...responses: (Response | Error)[]) {
  const asked: string[] = [];
  const api = createApi(
    async (url, init) => {
      asked.push(`${init?.method ?? 'GET'} ${String(url)} ${init?.body ?? ''}`.trim());
      const next = responses.shift() ?? new Error('nothing more');
      if (next instanceof Error) throw next;
      return next;
    },
    () => session.ended(),
  );
  const session = createSession(api);
  return { api, session, asked };
}

const json = (body: unknown, status = 200, code?: string): Response =>
  Response.json(body, { status, ...(code !== undefined && { headers: { 'x-sync-error': code } }) });

test('without authentication nobody signs in, and everyone may act', async () => {
  const { session } = setUp(json({ ...OUT, authentication: false }));
  await session.ask();
  assert.equal(session.state.value.kind, 'in');
  assert(mayAct(session.state.value));
});

test('the version of the page is that of the first answer, whatever the server becomes', async () => {
  const { session } = setUp(json(OUT), json({ ...SESSION, version: '0.2.0' }));
  assert.equal(session.version, undefined);
  await session.ask();
  await session.ask();
  assert.equal(session.version, '0.1.0');
});

test('signs in with a token and out again', async () => {
  const { session, asked } = setUp(json(OUT), json(SESSION), json(SESSION), json(OUT));
  await session.ask();
  assert.deepEqual(session.state.value, { kind: 'out', why: 'new' });
  await session.signIn('abc');
  assert.equal(session.state.value.kind, 'in');
  assert(!mayAct(session.state.value), 'a listener only reads');
  await session.signOut();
  assert.deepEqual(session.state.value, { kind: 'out', why: 'left' });
  assert.deepEqual(asked, [
    'GET /ui/session',
    'POST /ui/session {"token":"abc"}',
    'GET /ui/session',
    'DELETE /ui/session',
  ]);
});

test('a token that is refused keeps the reason of the server', async () => {
  const refusal = json({ detail: 'This token is of kind client.' }, 403, 'sign_in_refused');
  const { session } = setUp(json(OUT), refusal);
  await session.ask();
  await assert.rejects(session.signIn('abc'), (error) => {
    assert(error instanceof ApiError);
    assert.deepEqual(
      [error.status, error.code, error.message],
      [403, 'sign_in_refused', 'This token is of kind client.'],
    );
    return true;
  });
  assert.deepEqual(session.state.value, { kind: 'out', why: 'new' });
});

test('a request after the end of the session ends it; one that a token does not permit does not', async () => {
  const { api, session } = setUp(
    json(SESSION),
    json({ detail: 'no such topic' }, 401, 'topic_not_permitted'),
    json({ detail: 'sign in again' }, 401, 'unauthorized'),
  );
  await session.ask();
  await assert.rejects(api.get('/changes'), /no such topic/);
  assert.equal(session.state.value.kind, 'in');
  await assert.rejects(api.get('/changes'), /sign in again/);
  assert.deepEqual(session.state.value, { kind: 'out', why: 'expired' });
});

test('a server that does not answer is no reason to sign in', async () => {
  const { session } = setUp(new TypeError('fetch failed'), json(SESSION), new TypeError('fetch failed'));
  const kinds: string[] = [];
  for (let time = 0; time < 3; time++) {
    await session.ask();
    kinds.push(session.state.value.kind);
  }
  assert.deepEqual(kinds, ['unknown', 'in', 'in'], 'who is in stays in while the server is away');
});

test('errors say what is wrong, whatever the response is', async () => {
  const cases: readonly [Response, RegExp][] = [
    [json({ detail: [{ loc: ['query', 'limit'], msg: 'too large' }] }, 422), /query\.limit: too large/],
    [json({ detail: { error: 'why' } }, 400), /why/],
    [new Response('<html>', { status: 502 }), /answers 502/],
    [json({ error: 'Uncaught server exception' }, 500), /answers 500/],
  ];
  for (const [response, message] of cases) {
    const { api } = setUp(response);
    await assert.rejects(api.get('/clients', { limit: 3, after: undefined }), (error) => {
      assert(error instanceof ApiError && error.remedy !== '');
      assert.match(error.message, message);
      return true;
    });
  }
});

test('a request that is aborted rejects with the reason', async () => {
  const controller = new AbortController();
  const { api } = setUp(new DOMException('left', 'AbortError'));
  controller.abort();
  await assert.rejects(api.get('/changes', {}, controller.signal), { name: 'AbortError' });
});
