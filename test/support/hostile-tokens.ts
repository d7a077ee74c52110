import { createHmac, createPublicKey, generateKeyPairSync, sign } from 'node:crypto';
import type { Headers } from './hostile-wire.js';

/** What forged tokens are made from. */
export interface ForgeInput {
  /** A valid token: forgeries claim what it claims. */
  readonly good: string;
  readonly publicKey: string;
  readonly privateKey: string;
}

/** Authorization headers that no program may take, by what is wrong with them. All but the last few claim to be a valid token. */
export function badAuthorizations({ good, publicKey, privateKey }: ForgeInput): Readonly<Record<string, Headers>> {
  const [head = '', body = '', signature = ''] = good.split('.');
  const header = decoded(head);
  const claims = decoded(body);
  const own = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const ownJwk = own.publicKey.export({ format: 'jwk' });
  const signed = (headers: object, payload: object | string, key: string | typeof own.privateKey, hash = 'sha256') => {
    const input = `${encoded(headers)}.${encoded(payload)}`;
    return `${input}.${sign(hash, Buffer.from(input), key).toString('base64url')}`;
  };
  const hmac = (headers: object, secret = publicKey, hash = 'sha256'): string => {
    const input = `${encoded(headers)}.${body}`;
    return `${input}.${createHmac(hash, secret).update(input).digest('base64url')}`;
  };
  const publicJwk = JSON.stringify(createPublicKey(publicKey).export({ format: 'jwk' }));
  const curve = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const seconds = Math.floor(Date.now() / 1000);
  const { exp, ...endless } = claims;
  const tokens: Readonly<Record<string, string>> = {
    'the algorithm none': `${encoded({ alg: 'none', typ: 'JWT' })}.${body}.`,
    'the algorithm NonE and the old signature': `${encoded({ alg: 'NonE' })}.${body}.${signature}`,
    'HS256 with the public key as secret': hmac({ alg: 'HS256', typ: 'JWT' }),
    'HS256 under the name RS256': hmac(header),
    'a signature of another key': signed(header, claims, own.privateKey),
    'a key of its own in the header': signed({ ...header, jwk: ownJwk }, claims, own.privateKey),
    'a key URL of its own': signed({ ...header, jku: 'http://127.0.0.1:9/jwks.json' }, claims, own.privateKey),
    'a key id that is a path': signed({ ...header, kid: '../../../dev/null' }, claims, own.privateKey),
    'another algorithm of the right key': signed({ ...header, alg: 'RS512' }, claims, privateKey, 'sha512'),
    'an extension that must be understood': signed({ ...header, crit: ['x'], x: 1 }, claims, privateKey),
    'an unencoded payload': signed({ ...header, crit: ['b64'], b64: false }, claims, privateKey),
    'claims that were changed': `${head}.${encoded({ ...claims, peer_type: 'datasource', sub: 'f'.repeat(32) })}.${signature}`,
    'a token that has expired': signed(header, { ...claims, exp: seconds - 60 }, privateKey),
    'a token for later': signed(header, { ...claims, nbf: seconds + 3600 }, privateKey),
    'a token that never expires': signed(header, endless, privateKey),
    'an expiry that is no number': signed(header, { ...claims, exp: 'never' }, privateKey),
    'another audience': signed(header, { ...claims, aud: 'https://elsewhere.example/' }, privateKey),
    'another issuer': signed(header, { ...claims, iss: 'https://elsewhere.example/' }, privateKey),
    'topics that are no list': signed(header, { ...claims, permitted_topics: { length: 1 } }, privateKey),
    'a signed text that is no object': signed(header, '"claims"', privateKey),
    'a signed text that is no JSON': signed(header, '{', privateKey),
    'no algorithm at all': `${encoded({ typ: 'JWT' })}.${body}.${signature}`,
    'the algorithm none with the good signature': `${encoded({ alg: 'none' })}.${body}.${signature}`,
    'a list of algorithms': `${encoded({ alg: ['none', 'RS256'] })}.${body}.${signature}`,
    'an algorithm with spaces': `${encoded({ alg: ' none ' })}.${body}.`,
    'HS384 with the public key as secret': hmac({ alg: 'HS384' }, publicKey, 'sha384'),
    'HS512 with the public key as secret': hmac({ alg: 'HS512' }, publicKey, 'sha512'),
    'HS256 with the public key without its last newline': hmac({ alg: 'HS256' }, publicKey.trimEnd()),
    'HS256 with the published key as JSON': hmac({ alg: 'HS256' }, publicJwk),
    'HS256 with an empty secret': hmac({ alg: 'HS256' }, ''),
    'HS256 with the key id as secret': hmac({ alg: 'HS256' }, String(header.kid ?? 'kid')),
    'an elliptic key of its own': signed({ ...header, alg: 'ES256' }, claims, curve.privateKey),
    'an elliptic key of its own in the header': signed(
      { alg: 'ES256', jwk: curve.publicKey.export({ format: 'jwk' }) },
      claims,
      curve.privateKey,
    ),
    'a certificate chain of its own': signed({ ...header, x5c: [ownJwk.n] }, claims, own.privateKey),
    'a certificate URL of its own': signed({ ...header, x5u: 'http://127.0.0.1:9/cert' }, claims, own.privateKey),
    'an empty key id': signed({ ...header, kid: '' }, claims, own.privateKey),
    'a key id that is a query': signed({ ...header, kid: "' OR 1=1 --" }, claims, own.privateKey),
    'a key id that is a command': signed({ ...header, kid: '$(id)' }, claims, own.privateKey),
    'a key id that is an object': signed({ ...header, kid: { $ne: null } }, claims, own.privateKey),
    'no signature': `${head}.${body}.`,
    'a signature of zeros': `${head}.${body}.${'A'.repeat(342)}`,
    'the signature of other claims': `${head}.${encoded({ ...claims, exp: seconds + 9e6 })}.${signature}`,
    'the claims of two tokens': `${head}.${body}${body}.${signature}`,
    'a header that was changed': `${encoded({ ...header, typ: 'at+jwt' })}.${body}.${signature}`,
    'an encrypted token of five parts': `${head}.${body}.${signature}.${body}.${signature}`,
    'a token inside a token': signed({ ...header, cty: 'JWT' }, JSON.stringify(good), privateKey),
    'no audience': signed(header, { ...claims, aud: undefined }, privateKey),
    'audiences without ours': signed(header, { ...claims, aud: ['a', 'b'] }, privateKey),
    'no issuer': signed(header, { ...claims, iss: undefined }, privateKey),
    'issuers in a list': signed(header, { ...claims, iss: [claims.iss, 'x'] }, privateKey),
    'an expiry before 1970': signed(header, { ...claims, exp: -1 }, privateKey),
    'an expiry as text': signed(header, { ...claims, exp: String(seconds + 3600) }, privateKey),
    'a beginning that is no number': signed(header, { ...claims, nbf: 'now' }, privateKey),
    'topics as one text': signed(header, { ...claims, permitted_topics: 'policy_data' }, privateKey),
    'topics that are numbers': signed(header, { ...claims, permitted_topics: [7] }, privateKey),
    'half a token': good.slice(0, -20),
    'a token of four parts': `${good}.${signature}`,
    '8,000 dots': '.'.repeat(8000),
  };
  return {
    ...Object.fromEntries(
      Object.entries(tokens).map(([name, token]) => [name, [['Authorization', `Bearer ${token}`]]]),
    ),
    'no token': [],
    'an empty header': [['Authorization', '']],
    'Bearer alone': [['Authorization', 'Bearer']],
    'a Basic header': [['Authorization', `Basic ${Buffer.from('admin:not-the-password').toString('base64')}`]],
    'the token without Bearer': [['Authorization', good]],
    'two tokens in one header': [['Authorization', `Bearer ${tokens['half a token']}, Bearer ${good}`]],
    'a wrong header before the right one': [
      ['Authorization', 'Bearer not-a-token-at-all'],
      ['Authorization', `Bearer ${good}`],
    ],
    'the token as a cookie and in the URL alone': [['Cookie', `token=${good}`]],
    'a token of 20 KB': [['Authorization', `Bearer ${'a'.repeat(20_000)}`]],
    'bytes that are no text': [['Authorization', 'Bearer \xff\xfe\x80not-utf-8']],
  };
}

function decoded(part: string): Readonly<Record<string, unknown>> {
  return JSON.parse(Buffer.from(part, 'base64url').toString()) as Readonly<Record<string, unknown>>;
}

function encoded(part: object | string): string {
  return Buffer.from(typeof part === 'string' ? part : JSON.stringify(part)).toString('base64url');
}
