import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { connectFailure, connectText, isTlsRefusal, tlsAdvice } from './connect-failure.js';

const withCode = (code: string, message = 'why'): Error => Object.assign(new Error(message), { code });

describe('a connection that was not made', () => {
  const TABLE: [unknown, RegExp | undefined][] = [
    [withCode('DEPTH_ZERO_SELF_SIGNED_CERT'), /not of a trusted authority \(name that in THE_CA\)$/],
    [withCode('SELF_SIGNED_CERT_IN_CHAIN'), /not of a trusted authority/],
    [withCode('UNABLE_TO_VERIFY_LEAF_SIGNATURE'), /not of a trusted authority/],
    [withCode('UNABLE_TO_GET_ISSUER_CERT_LOCALLY'), /not of a trusted authority/],
    [withCode('CERT_HAS_EXPIRED'), /not valid at this time/],
    [withCode('CERT_NOT_YET_VALID'), /not valid at this time/],
    [withCode('ERR_TLS_CERT_ALTNAME_INVALID'), /for another name/],
    [withCode('ERR_SSL_WRONG_VERSION_NUMBER'), /does not speak TLS there/],
    [withCode('ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE'), /refuses TLS with us/],
    [new Error('the other side refused the connection: TLS alert "certificate required"'), /refuses TLS with us/],
    [withCode('PLAIN_TO_TLS'), /speaks TLS there \(use https:\/\/\)$/],
    [new Error('outer', { cause: withCode('CERT_HAS_EXPIRED') }), /not valid at this time/],
    [new AggregateError([withCode('ECONNREFUSED'), withCode('CERT_HAS_EXPIRED')]), /not valid at this time/],
    [withCode('ECONNREFUSED'), undefined],
    [new AggregateError([withCode('ECONNREFUSED')]), undefined],
    ['text', undefined],
  ];
  const options = { message: 'no answer from https://x', code: 'server_unreachable', caSetting: 'THE_CA' } as const;

  it('because of TLS says what is wrong with it, and which setting mends it', () => {
    for (const [cause, expected] of TABLE) {
      const advice = tlsAdvice(cause, 'THE_CA');
      const error = connectFailure(cause, options);
      assert.equal(error.cause, cause);
      if (expected === undefined) {
        assert.deepEqual([advice, error.code, error.message], [undefined, 'server_unreachable', options.message]);
      } else {
        assert.match(advice ?? '', expected);
        const code = /speaks? TLS there/.test(advice ?? '') ? 'tls_mismatch' : 'tls_failed';
        assert.deepEqual([error.code, error.message], [code, `${options.message}: ${advice}`]);
      }
    }
  });

  it('tells a peer that refuses TLS with us from one that does not speak it', () => {
    const refusals = ['CERT_HAS_EXPIRED', 'DEPTH_ZERO_SELF_SIGNED_CERT', 'ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE'];
    assert.ok(refusals.every((code) => isTlsRefusal(withCode(code))));
    const others = ['ERR_SSL_WRONG_VERSION_NUMBER', 'ECONNREFUSED', 'ECONNRESET'];
    assert.ok(others.every((code) => !isTlsRefusal(withCode(code))));
  });

  it('has a text with both', () => {
    assert.equal(connectText(withCode('ECONNREFUSED', 'no'), 'THE_CA'), 'no');
    assert.equal(
      connectText(withCode('CERT_HAS_EXPIRED', 'expired'), 'THE_CA'),
      'expired: its certificate is not valid at this time',
    );
  });

  it('ends, also where an error is its own cause', () => {
    const loop = new Error('round');
    loop.cause = loop;
    assert.equal(tlsAdvice(loop, 'THE_CA'), undefined);
  });
});
