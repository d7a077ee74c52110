import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { test } from 'node:test';
import fc from 'fast-check';
import { Secret } from '../../../lib/observe/log.js';
import { WEBHOOK_PRESETS } from './params.js';
import { createFirstMatch, createSecretCheck, re2FirstMatch } from './verify.js';

const SECRET = 'sésame, öffne dich';
const BODY = Buffer.from('{"ref":"refs/heads/main", "bytes":"\\u00e9 as sent"}');
const signature = (body: Buffer, secret = SECRET): string => createHmac('sha256', secret).update(body).digest('hex');
/** A header as Node gives it: its bytes as latin1. */
const asHeader = (text: string): string => Buffer.from(text, 'utf8').toString('latin1');

const NO_SECRET = { code: 'webhook_refused', status: 401, message: 'No secret was provided!' };
const WRONG_SIGNATURE = { code: 'webhook_refused', status: 401, message: "signatures didn't match!" };
const WRONG_TOKEN = { code: 'webhook_refused', status: 401, message: "secret-tokens didn't match!" };

test('a signature is that of the bytes of the body, in upper or lower case', async () => {
  const { check } = await createSecretCheck(WEBHOOK_PRESETS.github, new Secret(SECRET));
  const name = 'x-hub-signature-256';
  const good = signature(BODY);
  check({ [name]: `sha256=${good}` }, BODY);
  check({ [name]: `sha256=${good.toUpperCase()}` }, BODY);
  const rows: [IncomingHttpHeaders, object][] = [
    [{}, NO_SECRET],
    [{ [name]: '' }, NO_SECRET],
    [{ [name]: 'sha256=' }, NO_SECRET],
    [{ [name]: `sha1=${good}` }, NO_SECRET],
    [{ [name]: `sha256=${'a'.repeat(5_000)}` }, NO_SECRET],
    [{ [name]: `sha256=${good.slice(0, -1)}` }, WRONG_SIGNATURE],
    [{ [name]: `sha256=${good}0` }, WRONG_SIGNATURE],
    [{ [name]: `sha256=${signature(BODY, 'other')}` }, WRONG_SIGNATURE],
    [{ [name]: `sha256=${signature(Buffer.from(JSON.stringify(JSON.parse(BODY.toString()))))}` }, WRONG_SIGNATURE],
    [{ [name]: `sha256=${asHeader(SECRET)}` }, WRONG_SIGNATURE],
  ];
  for (const [headers, refusal] of rows) assert.throws(() => check(headers, BODY), refusal, JSON.stringify(headers));
});

test('a token is the secret itself, byte for byte, whatever the body is', async () => {
  for (const preset of [WEBHOOK_PRESETS.gitlab, WEBHOOK_PRESETS.azure, WEBHOOK_PRESETS.bitbucket]) {
    const { check } = await createSecretCheck(preset, new Secret(SECRET));
    const name = preset.secret_header_name.toLowerCase();
    check({ [name]: asHeader(SECRET) }, BODY);
    check({ [name]: asHeader(SECRET) }, Buffer.alloc(0));
    const rows: [string | undefined, object][] = [
      [undefined, NO_SECRET],
      ['', NO_SECRET],
      [asHeader(SECRET.toUpperCase()), WRONG_TOKEN],
      [asHeader(`${SECRET} `), WRONG_TOKEN],
      [asHeader(SECRET.slice(1)), WRONG_TOKEN],
      [signature(BODY), WRONG_TOKEN],
    ];
    for (const [value, refusal] of rows) {
      assert.throws(() => check(value === undefined ? {} : { [name]: value }, BODY), refusal, value);
    }
  }
});

test('of a header that came several times the first counts', async () => {
  const params = { ...WEBHOOK_PRESETS.gitlab, secret_header_name: 'set-cookie' };
  const { check } = await createSecretCheck(params, new Secret('s'));
  check({ 'set-cookie': ['s', 'other'] }, BODY);
  assert.throws(() => check({ 'set-cookie': ['other', 's'] }, BODY), WRONG_TOKEN);
});

test('a refusal does not contain the secret or what was sent', async () => {
  const { check } = await createSecretCheck(WEBHOOK_PRESETS.gitlab, new Secret('the-secret'));
  assert.throws(
    () => check({ 'x-gitlab-token': 'a-guess' }, BODY),
    (error: Error) => !/the-secret|a-guess/.test(JSON.stringify(error) + error.stack),
  );
});

test('without a secret everyone is believed, and a bad expression is refused all the same', async () => {
  const { check } = await createSecretCheck(WEBHOOK_PRESETS.github, undefined);
  check({}, BODY);
  const params = { ...WEBHOOK_PRESETS.github, secret_parsing_regex: '(' };
  await assert.rejects(createSecretCheck(params, undefined), { code: 'config_invalid' });
});

test('before the body is read a token is known, and what is no signature is refused', async () => {
  const token = await createSecretCheck(WEBHOOK_PRESETS.gitlab, new Secret('s'));
  token.screen({ 'x-gitlab-token': 's' });
  assert.throws(() => token.screen({ 'x-gitlab-token': 'other' }), WRONG_TOKEN);
  const signed = await createSecretCheck(WEBHOOK_PRESETS.github, new Secret('s'));
  signed.screen({ 'x-hub-signature-256': `sha256=${signature(BODY, 'of another')}` });
  assert.throws(() => signed.screen({}), NO_SECRET);
  assert.throws(() => signed.screen({ 'x-hub-signature-256': 'sha256=abc' }), WRONG_SIGNATURE);
});

test('finds what the first of re.findall is: the first group where there is one, else the whole match', async () => {
  const rows: [expression: string, text: string, found: string | undefined][] = [
    ['(.*)', 'abc', 'abc'],
    ['(.*)', '', ''],
    ['sha256=(.*)', 'sha256=abc', 'abc'],
    ['sha256=(.*)', 'sha1=1,sha256=abc', 'abc'],
    ['sha256=(.*)', 'sha1=abc', undefined],
    ['[0-9a-f]{4}', 'x cafe babe', 'cafe'],
    ['Bearer (\\S+)', 'Bearer t1 t2', 't1'],
    ['v(?P<version>\\d)=([0-9a-f]+)', 'v1=ab', '1'],
    ['(?:t=\\d+,)v1=([0-9a-f]+)', 't=1,v1=ab,v1=cd', 'ab'],
    ['a|(b)', 'a', undefined],
  ];
  for (const [expression, text, found] of rows) {
    const find = await createFirstMatch(expression);
    assert.equal(find(text), found, `${expression} in ${text}`);
  }
});

test('the short way for a prefix gives what the full one gives', async () => {
  const prefix = fc.stringMatching(/^[\w\-=:/ ]{0,3}$/);
  const text = fc.string({ unit: fc.constantFrom('a', '=', ':', '\n', ' ', 'é', '_'), maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(prefix, text, async (start, value) => {
      const expression = `${start}(.*)`;
      assert.equal((await createFirstMatch(expression))(value), (await re2FirstMatch(expression))(value));
    }),
  );
});

test('an expression that makes other engines take forever takes no time', async () => {
  for (const expression of ['(a+)+$', '(a|aa)+$', '(.*a){12}$', '((a*)*)*b']) {
    const find = await createFirstMatch(expression);
    const start = performance.now();
    find(`${'a'.repeat(4095)}!`);
    const ms = performance.now() - start;
    assert(ms < 1_000, `${expression} took ${ms} ms`);
  }
});

test('an expression that cannot be used is a configuration error that names the setting', async () => {
  for (const expression of ['(', '*', '(?=a)', '(a)\\1', 'a{2,1}', '(a{1000}){1000}']) {
    await assert.rejects(
      createFirstMatch(expression),
      { code: 'config_invalid', message: /SYNC_POLICY_REPO_WEBHOOK_PARAMS at secret_parsing_regex: .*RE2/ },
      expression,
    );
  }
});
