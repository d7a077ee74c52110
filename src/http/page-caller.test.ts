import assert from 'node:assert/strict';
import type { IncomingHttpHeaders } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { TLSSocket } from 'node:tls';
import { ANONYMOUS, type GuardedAudience, type Permitted } from '../auth/caller.js';
import type { PageSessions } from '../auth/page-session.js';
import { SyncError } from '../lib/errors.js';
import {
  authorizeSession,
  pageCaller,
  refuseOtherPages,
  sessionClearCookies,
  sessionSetCookie,
} from './page-caller.js';

const HOST = 'fleet.example.com:7002';
const PAGE = { 'x-sync-ui': '1' };

function isRefused(method: string, headers: IncomingHttpHeaders): boolean {
  try {
    refuseOtherPages({ method, headers: { host: HOST, ...headers } });
    return false;
  } catch (error) {
    assert(error instanceof SyncError && error.code === 'origin_refused');
    return true;
  }
}

test('a request that reads counts unless the browser says that another page sent it', () => {
  for (const [headers, refused] of [
    [{}, false],
    [{ 'sec-fetch-site': 'same-origin' }, false],
    [{ 'sec-fetch-site': 'none' }, false],
    [{ 'sec-fetch-site': 'same-site' }, true],
    [{ 'sec-fetch-site': 'cross-site' }, true],
    [{ 'sec-fetch-site': 'elsewhere' }, true],
    [{ origin: `https://${HOST}` }, false],
    [{ origin: 'https://fleet.example.com:8080' }, true],
    [{ origin: 'https://other.example' }, true],
    [{ origin: 'null' }, true],
    [{ origin: 'https://other.example', 'sec-fetch-site': 'same-origin' }, true],
  ] as const)
    for (const method of ['GET', 'HEAD'])
      assert.equal(isRefused(method, headers), refused, `${method} ${JSON.stringify(headers)}`);
});

test('a request that changes something proves that the page itself sent it', () => {
  for (const [headers, refused] of [
    [{}, true],
    [PAGE, true],
    [{ 'sec-fetch-site': 'same-origin' }, true],
    [{ origin: `http://${HOST}` }, true],
    [{ ...PAGE, 'sec-fetch-site': 'same-origin' }, false],
    [{ ...PAGE, 'sec-fetch-site': 'same-origin', origin: `http://${HOST}` }, false],
    [{ ...PAGE, origin: `http://${HOST}` }, false],
    [{ ...PAGE, origin: `HTTP://${HOST.toUpperCase()}` }, false],
    [{ 'x-sync-ui': '0', origin: `http://${HOST}` }, true],
    [{ ...PAGE, 'sec-fetch-site': 'none' }, true],
    [{ ...PAGE, 'sec-fetch-site': 'same-site', origin: `http://${HOST}` }, true],
    [{ ...PAGE, 'sec-fetch-site': 'cross-site', origin: `http://${HOST}` }, true],
    [{ ...PAGE, origin: 'http://fleet.example.com:8080' }, true],
    [{ ...PAGE, origin: 'http://fleet.example.com.other.example:7002' }, true],
    [{ ...PAGE, origin: 'null' }, true],
    [{ ...PAGE, 'sec-fetch-site': 'same-origin', origin: 'http://other.example' }, true],
  ] as const)
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH'])
      assert.equal(isRefused(method, headers), refused, `${method} ${JSON.stringify(headers)}`);
});

/** Takes every value for a session, with it as the subject. */
const sessions: PageSessions = {
  seal: () => assert.fail('nothing is sealed'),
  open: (value) => ({ ...ANONYMOUS, subject: value }),
};

function subjectOf(
  cookie: string | undefined,
  socket = new Socket(),
  more: IncomingHttpHeaders = {},
): string | null | undefined {
  const headers = { host: HOST, ...(cookie === undefined ? {} : { cookie }), ...more };
  return pageCaller({ method: 'GET', headers, socket }, sessions)?.subject;
}

test('the cookie is found among others; over TLS only one that another server of the domain cannot have set', () => {
  assert.equal(subjectOf(undefined), undefined);
  assert.equal(subjectOf('a=b; policysync2=c'), undefined);
  assert.equal(subjectOf('a=b; policysync=c'), 'c');
  assert.equal(subjectOf('policysync=c;__Host-policysync=d'), 'd');
  const overTls = new TLSSocket(new Socket());
  assert.equal(subjectOf('policysync=c', overTls), undefined);
  assert.equal(subjectOf('policysync=c; __Host-policysync=d', overTls), 'd');
});

test('behind a proxy that ends TLS, too, the plain cookie does not count: the browser says that it speaks TLS', () => {
  const site = { 'sec-fetch-site': 'same-origin' };
  const plain = (headers: IncomingHttpHeaders) => subjectOf('policysync=c', undefined, headers);
  assert.equal(plain({}), 'c');
  assert.equal(plain(site), undefined);
  assert.equal(subjectOf('policysync=c; __Host-policysync=d', undefined, site), 'd');
  for (const host of ['localhost:7002', '127.0.0.1:7002', '[::1]:7002', 'fleet.localhost']) {
    assert.equal(plain({ ...site, host }), 'c', host);
  }
});

test('the cookie is for TLS alone where the browser speaks TLS', () => {
  const plain = { method: 'POST', headers: { origin: `http://${HOST}` }, socket: new Socket() };
  const rest = 'Path=/; Max-Age=60; HttpOnly; SameSite=Strict';
  assert.equal(sessionSetCookie(plain, 'v', 60), `policysync=v; ${rest}`);
  const secure = `__Host-policysync=v; ${rest}; Secure`;
  assert.equal(sessionSetCookie({ ...plain, socket: new TLSSocket(new Socket()) }, 'v', 60), secure);
  assert.equal(sessionSetCookie({ ...plain, headers: { origin: `https://${HOST}` } }, 'v', 60), secure);
  for (const text of sessionClearCookies())
    assert.match(text, /^(?:__Host-)?policysync=; Path=\/; Max-Age=0; HttpOnly/);
});

test('a session of a listener reads what its kind may read; no refusal looks as if nobody were signed in', () => {
  const codeFor = (
    type: 'listener' | 'datasource',
    access: GuardedAudience['access'],
    method: string,
    limits: Partial<Permitted> = {},
  ) => {
    try {
      authorizeSession({ access, limited: 'nothing' }, { ...ANONYMOUS, ...limits, peerType: type }, method);
      return undefined;
    } catch (error) {
      assert(error instanceof SyncError && error.status === 403);
      return error.code;
    }
  };
  const both = ['datasource', 'listener'] as const;
  assert.equal(codeFor('listener', both, 'GET'), undefined);
  assert.equal(codeFor('listener', 'token', 'HEAD'), undefined);
  assert.equal(codeFor('listener', both, 'POST'), 'session_not_permitted');
  assert.equal(codeFor('listener', 'token', 'DELETE'), 'session_not_permitted');
  assert.equal(codeFor('listener', ['datasource'], 'GET'), 'session_not_permitted');
  assert.equal(codeFor('datasource', ['datasource'], 'POST'), undefined);
  assert.equal(codeFor('datasource', ['listener'], 'GET'), 'session_not_permitted');
  assert.equal(codeFor('datasource', both, 'GET', { permittedPaths: [] }), 'session_not_permitted');
});
