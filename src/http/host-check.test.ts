import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../lib/errors.js';
import { createHostCheck } from './host-check.js';

const refused = (error: unknown): boolean =>
  error instanceof SyncError && error.code === 'host_refused' && error.status === 421;

test('on loopback only loopback names and configured ones are taken', () => {
  for (const host of ['127.0.0.1', 'localhost', '::1', '127.0.0.53']) {
    const check = createHostCheck({ host, names: ['policies.example', '.team.example', '10.0.0.5'] });
    for (const name of [
      ...[
        'localhost',
        'LOCALHOST:7002',
        'localhost.',
        'a.localhost:1',
        '127.0.0.1',
        '127.1.2.3:80',
        '[::1]',
        '[::1]:7002',
      ],
      ...['[::ffff:127.0.0.1]:7002', 'policies.example', 'Policies.Example:443', 'a.team.example', '10.0.0.5:7002'],
    ]) {
      check({ headers: { host: name }, url: '/' });
    }
    for (const name of [
      ...[
        'evil.example',
        'evil.example:7002',
        'localhost.evil.example',
        '127.0.0.1.evil.example',
        'xlocalhost',
        'team.example',
      ],
      ...['10.0.0.6', '0.0.0.0', '[::]', '[fe80::1]', '', '127.0.0.1:7002@evil.example', 'evil.example:7002:127.0.0.1'],
    ]) {
      assert.throws(() => check({ headers: { host: name }, url: '/' }), refused, `${host} ${name}`);
    }
    check({ headers: {}, url: '/' });
    check({ headers: { host: 'localhost' }, url: 'http://user:x@localhost/data' });
    assert.throws(() => check({ headers: { host: 'localhost' }, url: 'http://evil.example/data' }), refused);
  }
});

test('elsewhere every name is taken, unless some are configured', () => {
  const open = createHostCheck({ host: '0.0.0.0', names: [] });
  open({ headers: { host: 'sync-server:7002' }, url: '/' });
  const named = createHostCheck({ host: '0.0.0.0', names: ['sync-server'] });
  named({ headers: { host: 'sync-server:7002' }, url: '/' });
  named({ headers: { host: 'localhost:7002' }, url: '/' });
  assert.throws(() => named({ headers: { host: 'evil.example' }, url: '/' }), refused);
});
