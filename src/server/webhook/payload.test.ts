import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../lib/errors.js';
import { parsePayload, readPush } from './payload.js';

const JSON_TYPE = 'application/json';
const FORM_TYPE = 'application/x-www-form-urlencoded';

test('a payload is a JSON object, whatever its content type says, or the form field "payload"', () => {
  const text = '{"ref":"refs/heads/a b+c&d","n":"é"}';
  const form = `x=1&payload=${encodeURIComponent(text).replaceAll('%20', '+')}&y=payload`;
  for (const type of [JSON_TYPE, `${JSON_TYPE}; charset=utf-8`, 'text/plain', undefined]) {
    assert.deepEqual(parsePayload(type, Buffer.from(text)), JSON.parse(text));
  }
  assert.deepEqual(parsePayload(FORM_TYPE, Buffer.from(form)), JSON.parse(text));
  assert.deepEqual(parsePayload(`${FORM_TYPE}; charset=utf-8`, Buffer.from(form)), JSON.parse(text));
});

test('a body that is no JSON object is refused with 422, without repeating it', () => {
  const bodies: [string, string | Buffer][] = [
    [JSON_TYPE, ''],
    [JSON_TYPE, 'secret'],
    [JSON_TYPE, '{"secret":1'],
    [JSON_TYPE, '[{"secret":1}]'],
    [JSON_TYPE, 'null'],
    [JSON_TYPE, '"secret"'],
    [JSON_TYPE, Buffer.from([0x7b, 0xff, 0x7d])],
    [JSON_TYPE, '['.repeat(1_000_000)],
    [FORM_TYPE, 'x=secret'],
    [FORM_TYPE, 'payload='],
    [FORM_TYPE, 'payload=%7'],
    [FORM_TYPE, '{}'],
  ];
  for (const [type, body] of bodies) {
    assert.throws(
      () => parsePayload(type, Buffer.from(body)),
      (error: unknown) => {
        assert(error instanceof SyncError);
        assert.deepEqual([error.code, error.status], ['request_invalid', 422]);
        return !/secret/.test(error.message + JSON.stringify(error.detail));
      },
      String(body).slice(0, 20),
    );
  }
});

test('URLs, names and branches are found where each service has them', () => {
  const rows: [object, { urls?: string[]; names?: string[]; branches?: string[] }][] = [
    [{ ref: 'refs/heads/a/b' }, { branches: ['a/b'] }],
    [{ ref: 'refs/tags/v1' }, { branches: ['refs/tags/v1'] }],
    [{ refUpdates: { name: 'refs/heads/x' } }, { branches: ['x'] }],
    [{ refUpdates: [{ name: 'refs/heads/x' }, { name: 'refs/heads/y' }] }, { branches: ['x', 'y'] }],
    [{ resource: { refUpdates: [{ name: 'refs/heads/x' }] } }, { branches: ['x'] }],
    [{ push: { changes: [{ new: { type: 'branch', name: 'x' }, old: null }] } }, { branches: ['x'] }],
    [{ push: { changes: [{ new: null, old: { type: 'branch', name: 'x' } }] } }, { branches: ['x'] }],
    [{ push: { changes: [{ new: { type: 'tag', name: 'x' } }] } }, { branches: ['refs/tags/x'] }],
    [{ repository: { clone_url: 'u', git_url: 'u', ssh_url: 'v', url: null } }, { urls: ['u', 'v'] }],
    [{ repository: { git_ssh_url: 'u', git_http_url: 'v', url: 'w' } }, { urls: ['u', 'v', 'w'] }],
    [{ project: { git_http_url: 'u', git_ssh_url: 'v' } }, { urls: ['u', 'v'] }],
    [{ resource: { repository: { remoteUrl: 'u', sshUrl: 'v' } } }, { urls: ['u', 'v'] }],
    [{ repository: { links: { html: { href: 'u' } } } }, { urls: ['u'] }],
    [{ project: { path_with_namespace: 'a/b' }, repository: { full_name: 'c/d' } }, { names: ['a/b', 'c/d'] }],
    [{ repository: null, project: [], resource: 'x', ref: 1, refUpdates: [null, 1, [{ name: 'x' }]] }, {}],
    [{ repository: { url: { url: 'x' }, full_name: '' }, push: { changes: { new: 'x' } } }, {}],
  ];
  for (const [payload, expected] of rows) {
    const found = readPush(payload as Record<string, unknown>);
    assert.deepEqual(found, { urls: [], names: [], branches: [], ...expected }, JSON.stringify(payload));
  }
});

test('members of the prototype are no members of a payload', () => {
  const payload = parsePayload(JSON_TYPE, Buffer.from('{"__proto__":{"ref":"x","repository":{"url":"u"}}}'));
  assert.deepEqual(readPush(payload), { urls: [], names: [], branches: [] });
});
