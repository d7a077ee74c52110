import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { makeAuthority, type Pair, type TestAuthority } from '../../../../test/support/certificates.js';
import type { Finding } from '../../kit/findings.js';
import { chainFinding, listenerTlsCheck } from './tls-check.js';

const ID = { id: 'server_tls', subject: 'TLS' };
const DAY_MS = 86_400_000;

describe('the certificate of a listener', () => {
  let authority: TestAuthority;
  let other: TestAuthority;
  let pair: Pair;
  let leaf: X509Certificate;
  let ca: X509Certificate;
  let stranger: X509Certificate;
  before(async () => {
    [authority, other] = await Promise.all([makeAuthority('ours'), makeAuthority('theirs')]);
    pair = await authority.issue('server');
    [leaf, ca, stranger] = (await Promise.all([pair.cert, authority.file, other.file].map(certificate))) as [
      X509Certificate,
      X509Certificate,
      X509Certificate,
    ];
  });
  after(async () => {
    await authority[Symbol.asyncDispose]();
    await other[Symbol.asyncDispose]();
  });

  /** The finding for a chain so many days after the certificate was made. */
  const judged = (chain: readonly X509Certificate[], days = 1): Finding =>
    chainFinding(ID, chain, Date.parse(leaf.validFrom) + days * DAY_MS);

  it('with its chain in order is judged by its own time, under its names', () => {
    for (const chain of [[leaf], [leaf, ca]]) {
      const { level, message } = judged(chain);
      assert.equal(level, 'warning');
      assert.match(message, /^the certificate for localhost, server\.test, secure\.test, 127\.0\.0\.1 expires on /);
      assert.match(judged(chain, 3).message, / expired on /);
      assert.match(judged(chain, -1).message, / is valid only from /);
    }
    assert.match(judged([ca]).message, /^the certificate for no name \(subjectAltName\) /);
  });

  it('that the next one did not issue, and no certificate, are errors', () => {
    for (const chain of [
      [ca, leaf],
      [leaf, stranger],
    ]) {
      const { level, message, remedy } = judged(chain);
      assert.equal(level, 'error');
      assert.equal(message, 'certificate 2 of the file did not issue certificate 1: callers cannot follow the chain');
      assert.match(remedy ?? '', /^Put the certificate first/);
    }
    assert.match(judged([leaf, ca, stranger]).message, /^certificate 3 of the file did not issue certificate 2/);
    assert.deepEqual([judged([]).level, judged([]).message], ['error', 'there is no certificate']);
  });

  it('is read from its file, or not there, which counts where a network reaches it', async () => {
    const check = async (host: string, cert: string | undefined, key: string | undefined): Promise<string> => {
      const fileOf = (setting: string, path: string | undefined) =>
        path === undefined ? undefined : { setting, path };
      const files = { cert: fileOf('SYNC_CERT', cert), key: fileOf('SYNC_KEY', key) };
      const [finding] = await listenerTlsCheck({ ...ID, host, files, settings: 'SYNC_X' }).run(
        new AbortController().signal,
      );
      return `${finding?.level}: ${finding?.message}`;
    };
    assert.equal(await check('127.0.0.1', undefined, undefined), 'ok: plain HTTP, for this machine alone');
    assert.match(await check('0.0.0.0', undefined, undefined), /^warning: plain HTTP on 0\.0\.0\.0/);
    assert.match(await check('0.0.0.0', pair.cert, pair.key), /^warning: the certificate for localhost, .* expires on/);
    assert.match(await check('0.0.0.0', `${pair.cert}-gone`, pair.key), /^error: .*-gone/);
  });
});

async function certificate(file: string): Promise<X509Certificate> {
  return new X509Certificate(await readFile(file));
}
