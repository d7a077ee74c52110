import assert from 'node:assert/strict';
import { copyFile, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { makeAuthority, type Pair, type TestAuthority } from '../../../test/support/certificates.js';
import { extraAuthorities, outgoingTls, pemFile, TlsFiles, tlsFor } from './tls.js';

describe('certificates in files', () => {
  let authority: TestAuthority;
  let one: Pair;
  let two: Pair;
  before(async () => {
    authority = await makeAuthority('test authority');
    one = await authority.issue('one');
    two = await authority.issue('two');
  });
  after(() => authority[Symbol.asyncDispose]());

  const files = (pair: Pair) => ({ cert: pemFile('CERT', pair.cert), key: pemFile('KEY', pair.key) });

  test('changed files are read again; a certificate whose key is not there yet leaves the pair before in use', async () => {
    const live = { cert: `${authority.dir}/live.pem`, key: `${authority.dir}/live.key` };
    await copyFile(one.cert, live.cert);
    await copyFile(one.key, live.key);
    const opened = await TlsFiles.open(files(live));
    const tls = outgoingTls(opened, 'also');
    const at = { host: 'a', port: 1 };
    const before = tls.context(at);
    assert.equal(await opened.refresh(), false);
    await copyFile(two.cert, live.cert);
    await assert.rejects(opened.refresh(), { code: 'config_invalid', message: /KEY: .*live\.key is not the key of/ });
    assert.equal(tls.context(at), before);
    await copyFile(two.key, live.key);
    assert.equal(await opened.refresh(), true);
    assert.notEqual(tls.context(at), before);
    assert.equal(tls.context(at), tls.context(at));
    assert.equal(await opened.refresh(), false);
  });

  test('a file that cannot be used is refused with its setting and its path, and never with what it has', async () => {
    const at = (name: string): string => `${authority.dir}/${name}`;
    await writeFile(at('secret.key'), 'super-secret-content');
    await writeFile(at('locked.key'), '-----BEGIN ENCRYPTED PRIVATE KEY-----\nsuper-secret-content\n');
    await writeFile(at('damaged.pem'), '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');
    for (const [wrong, says] of [
      [{ ...one, key: at('secret.key') }, /KEY: .*secret\.key has no private key/],
      [{ ...one, key: at('locked.key') }, /KEY: .*locked\.key is encrypted/],
      [{ ...one, cert: at('damaged.pem') }, /CERT: .*damaged\.pem has a damaged certificate/],
      [{ ...one, cert: at('missing.pem') }, /CERT: .*missing\.pem cannot be read/],
    ] as const) {
      await assert.rejects(TlsFiles.open(files(wrong)), (error: Error & { code?: string }) => {
        assert.equal(error.code, 'config_invalid');
        assert.match(error.message, says);
        assert.doesNotMatch(error.message, /super-secret/);
        return true;
      });
    }
    await assert.rejects(TlsFiles.open({ key: pemFile('KEY', one.key) }), /KEY needs certificate and key/);
    await assert.rejects(TlsFiles.open({ ca: pemFile('CA', one.key) }), /CA: .* has no certificate/);
  });

  test('our certificate is for the endpoints that are named, host and port', async () => {
    const none = outgoingTls(await TlsFiles.open({}), 'also');
    const own = outgoingTls(await TlsFiles.open(files(one)), 'also');
    const tls = tlsFor([{ host: 'server', port: 7002 }], own, none);
    const ours = own.context({ host: '', port: 0 });
    assert.equal(tls.context({ host: 'server', port: 7002 }), ours);
    assert.notEqual(tls.context({ host: 'server', port: 7003 }), ours);
    assert.notEqual(tls.context({ host: 'other', port: 7002 }), ours);
  });

  test('authorities of NODE_EXTRA_CA_CERTS stay trusted beside those of the CA file', async () => {
    assert.match((await extraAuthorities({ NODE_EXTRA_CA_CERTS: authority.file })) ?? '', /BEGIN CERTIFICATE/);
    assert.equal(await extraAuthorities({ NODE_EXTRA_CA_CERTS: '/nowhere' }), undefined);
    assert.equal(await extraAuthorities({}), undefined);
  });
});
