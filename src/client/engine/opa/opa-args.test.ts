import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../../lib/errors.js';
import { configOverrides, listenAddress, opaArgs, splitAddress } from './opa-args.js';

const plain = { engineUrl: 'http://localhost:8181', config: {}, v0Compatible: false, logFormat: 'none' } as const;

test('listens at host and port of the engine URL unless an address is configured', () => {
  assert.equal(listenAddress(plain), 'localhost:8181');
  assert.equal(listenAddress({ engineUrl: 'http://10.0.0.1/', config: {} }), '10.0.0.1:80');
  assert.equal(listenAddress({ engineUrl: 'https://opa', config: {} }), 'opa:443');
  assert.equal(listenAddress({ engineUrl: 'http://[::1]:9000', config: {} }), '[::1]:9000');
  assert.equal(listenAddress({ engineUrl: 'http://localhost:8181', config: { addr: '0.0.0.0:1' } }), '0.0.0.0:1');
});

test('runs a server with JSON logs, quiet where nobody reads them', () => {
  assert.deepEqual(opaArgs(plain, ['--config-file=/c']), [
    'run',
    '--server',
    '--addr=localhost:8181',
    '--log-format=json',
    '--log-level=error',
    '--skip-version-check',
    '--config-file=/c',
  ]);
  assert.ok(opaArgs({ ...plain, logFormat: 'http' }, []).includes('--log-level=info'));
});

test("passes the engine's own options on, with files last", () => {
  const config = {
    authentication: 'token',
    authorization: 'basic',
    tls_cert_file: '/cert',
    tls_private_key_file: '/key',
    tls_ca_cert_file: '/ca',
    tls_cert_refresh_period: '1m',
    log_level: 'debug',
    files: ['a.rego', 'b.json'],
  } as const;
  const args = opaArgs({ ...plain, config: { ...config, files: [...config.files] } }, ['--config-file=/c']);
  for (const flag of [
    '--authentication=token',
    '--authorization=basic',
    '--tls-cert-file=/cert',
    '--tls-private-key-file=/key',
    '--tls-ca-cert-file=/ca',
    '--tls-cert-refresh-period=1m',
    '--log-level=debug',
  ]) {
    assert.ok(args.includes(flag), flag);
  }
  assert.deepEqual(args.slice(-3), ['--config-file=/c', 'a.rego', 'b.json']);
});

test('v0 compatibility comes from the setting, and its own option wins', () => {
  const has = (v0Compatible: boolean, option?: boolean): boolean =>
    opaArgs({ ...plain, v0Compatible, config: option === undefined ? {} : { v0_compatible: option } }, []).includes(
      '--v0-compatible',
    );
  assert.deepEqual([has(true), has(false), has(true, false), has(false, true)], [true, false, false, true]);
});

test('splits TCP addresses and leaves other ones alone', () => {
  assert.deepEqual(splitAddress('127.0.0.1:8181'), { host: '127.0.0.1', port: 8181 });
  assert.deepEqual(splitAddress(':8181'), { host: undefined, port: 8181 });
  assert.deepEqual(splitAddress('[::1]:8181'), { host: '::1', port: 8181 });
  assert.equal(splitAddress('unix:///run/opa.sock'), undefined);
});

test('our configuration becomes single values, with special characters of keys escaped', () => {
  const text = JSON.stringify({ services: { 'a.b': { url: 'http://x', n: 3, on: true } }, bundles: {} });
  assert.deepEqual(configOverrides(text), [
    { path: 'services.a\\.b.url', value: 'http://x' },
    { path: 'services.a\\.b.n', value: 3 },
    { path: 'services.a\\.b.on', value: true },
  ]);
});

test('a list cannot be laid over a configuration file', () => {
  assert.throws(
    () => configOverrides('{"a":{"b":[1]}}'),
    (error) => error instanceof SyncError && error.code === 'config_invalid' && error.message.includes('"a.b"'),
  );
});
