import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AwsV4Signer } from 'aws4fetch';
import fc from 'fast-check';
import { Secret } from '../../lib/log.js';
import { signGet } from './sigv4.js';

/** Keys of the examples in the Amazon S3 documentation ("Signature Calculations ... Using Authorization Header"). */
const DOCUMENTED = {
  accessKeyId: new Secret('AKIAIOSFODNN7EXAMPLE'),
  secretAccessKey: new Secret('wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'),
  region: 'us-east-1',
};
const DOCUMENTED_TIME = new Date('2013-05-24T00:00:00Z');
const BUCKET = 'https://examplebucket.s3.amazonaws.com';

test("signs the Amazon documentation's examples as it does", () => {
  const object = signGet(new URL(`${BUCKET}/test.txt`), DOCUMENTED, DOCUMENTED_TIME, { range: 'bytes=0-9' });
  assert.equal(
    object.headers.authorization,
    'AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  );
  const lifecycle = signGet(new URL(`${BUCKET}/?lifecycle`), DOCUMENTED, DOCUMENTED_TIME);
  assert.match(
    lifecycle.headers.authorization ?? '',
    /Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543$/,
  );
  const list = signGet(new URL(`${BUCKET}/?prefix=J&max-keys=2`), DOCUMENTED, DOCUMENTED_TIME);
  assert.match(
    list.headers.authorization ?? '',
    /Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7$/,
  );
});

test('signs any URL as aws4fetch does, and what it asks for is what it signed', async () => {
  const segment = fc.oneof(
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }),
    fc.string({ unit: fc.constantFrom(...`!'()*~ +&=@:;,$%#?"<>|^[]{}`, 'é', '日'), minLength: 1, maxLength: 6 }),
  );
  const word = fc.string({ unit: fc.constantFrom(...'abcXYZ019+/=_-'), minLength: 1, maxLength: 40 });
  const inputs = fc.record({
    host: fc.constantFrom(
      's3.example.com',
      'localhost:9000',
      '127.0.0.1:4568',
      '[::1]:9000',
      'b.s3.eu-west-1.amazonaws.com',
    ),
    secure: fc.boolean(),
    path: fc.array(segment, { minLength: 1, maxLength: 5 }),
    query: fc.dictionary(segment, segment, { maxKeys: 4 }),
    id: word,
    key: word,
    region: fc.constantFrom('us-east-1', 'eu-central-1', 'auto', 'ap-southeast-2'),
    time: fc.date({ min: new Date('1990-01-01'), max: new Date('2090-01-01'), noInvalidDate: true }),
  });
  await fc.assert(
    fc.asyncProperty(inputs, async ({ host, secure, path, query, id, key, region, time }) => {
      fc.pre(!path.some((name) => name === '.' || name === '..'));
      const base = `${secure ? 'https' : 'http'}://${host}/${path.map(encodeURIComponent).join('/')}`;
      const given = new URL(`${base}?${new URLSearchParams(query)}`);
      const credentials = { accessKeyId: new Secret(id), secretAccessKey: new Secret(key), region };
      const { url, headers } = signGet(given, credentials, time);
      const signer = new AwsV4Signer({
        method: 'GET',
        url: url.href,
        headers: { 'x-amz-content-sha256': headers['x-amz-content-sha256'] ?? '' },
        accessKeyId: id,
        secretAccessKey: key,
        region,
        service: 's3',
        datetime: headers['x-amz-date'] ?? '',
      });
      const expected = (await signer.sign()).headers.get('authorization');
      assert.equal(headers.authorization, expected, url.href);
      assert.equal(decodeURIComponent(url.pathname), decodeURIComponent(given.pathname));
      assert.match(url.pathname, /^[A-Za-z0-9\-._~/%]*$/);
    }),
    { numRuns: 400 },
  );
});

test('the secret key is in nothing that it answers', () => {
  const { url, headers } = signGet(new URL(`${BUCKET}/test.txt`), DOCUMENTED, new Date());
  assert(!JSON.stringify([url, headers]).includes(DOCUMENTED.secretAccessKey.reveal()));
});
