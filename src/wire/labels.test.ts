import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { errorText } from '../lib/errors.js';
import { labelsText, NO_LABELS, parseLabels, peerLabels } from './labels.js';

const LONG = 'a'.repeat(63);
const MANY = Array.from({ length: 16 }, (_, index) => `k${index}=v`).join(',');

function read(text: string | readonly string[]): object | string {
  try {
    return parseLabels(text);
  } catch (error) {
    return errorText(error);
  }
}

describe('labels of a client', () => {
  const TABLE: readonly [string | readonly string[], object | RegExp][] = [
    ['', {}],
    [' , ,', {}],
    ['app=billing,zone=a', { app: 'billing', zone: 'a' }],
    [' app = billing , zone = a ', { app: 'billing', zone: 'a' }],
    [['app=billing', 'zone=a'], { app: 'billing', zone: 'a' }],
    ['app.kubernetes.io/name=shop_1-b', { 'app.kubernetes.io/name': 'shop_1-b' }],
    ['zone=', { zone: '' }],
    ['note=two words, é', /"é" has no =/],
    ['constructor=x', { constructor: 'x' }],
    [`${LONG}=${LONG}`, { [LONG]: LONG }],
    [`a${LONG}=x`, /"a+" is no key: a key is a letter, .*at most 63 characters/],
    [`x=a${LONG}`, /the value "a+" of x is not allowed: at most 63 characters/],
    ['billing', /labels such as app=billing,zone=a; "billing" has no =/],
    ['=x', /"" is no key/],
    ['1a=x', /"1a" is no key/],
    ['a b=x', /"a b" is no key/],
    ['__proto__=x', /"__proto__" is no key/],
    ['a=b=c', /the value "b=c" of a is not allowed: .* no =/],
    ['a=b\u0007c', /no control characters/],
    ['a=b\u202ec', /no control characters/],
    [['a=b,c=d'], /the value "b,c=d" of a is not allowed/],
    ['a=1,a=2', /has the label "a" twice/],
    [`${MANY},k16=v`, /has 17 labels: at most 16 are allowed/],
  ];

  it('are read as the table says, and a wrong one is named with what is allowed', () => {
    for (const [text, wanted] of TABLE) {
      const found = read(text);
      if (wanted instanceof RegExp) assert.match(String(found), wanted, String(text));
      else assert.deepEqual(found, wanted, String(text));
    }
    assert.equal(Object.keys(parseLabels(MANY)).length, 16);
    assert.equal(parseLabels(''), NO_LABELS);
  });

  it('of a peer are all right, or none', () => {
    const good: unknown[] = [{}, { app: 'billing' }];
    const bad: unknown[] = [null, [], 'app=billing', { app: 1 }, { 'a b': 'x' }, { app: 'a,b' }, { [`${LONG}a`]: 'x' }];
    for (const labels of good) assert.equal(peerLabels.safeParse(labels).success, true, JSON.stringify(labels));
    for (const labels of bad) assert.equal(peerLabels.safeParse(labels).success, false, JSON.stringify(labels));
    const many = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`k${index}`, 'v']));
    assert.equal(peerLabels.safeParse(many).success, false);
  });

  it('are written as they are set, by key', () => {
    assert.equal(labelsText({ zone: 'a', app: 'billing' }), 'app=billing,zone=a');
    assert.equal(labelsText(NO_LABELS), '');
  });
});
