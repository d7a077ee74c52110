import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as z from 'zod';
import { readSettings } from './options.js';
import { flagName, type Setting } from './setting.js';
import {
  choiceSetting,
  flagSetting,
  hostSetting,
  jsonSetting,
  lineSetting,
  listSetting,
  numberSetting,
  opalFlagSetting,
  rateSetting,
  secondsSetting,
  textSetting,
  urlSetting,
} from './setting-kinds.js';

const spec = ['SYNC_X', 'An x.'] as const;

/** The value of a text, or the message that refuses it. */
function read<T>(setting: Setting<T>, text: string): T | string {
  const { success, data, error } = setting.schema(setting.env).safeParse(text);
  return success ? data : `refused: ${error.issues[0]?.message}`;
}

describe('kinds of settings', () => {
  it('a host may be an IPv6 address in brackets, as in a URL', () => {
    const settings = { host: hostSetting('SYNC_HOST', 'A host.', { default: '127.0.0.1' }) };
    for (const [given, host] of [
      ['[::1]', '::1'],
      ['::1', '::1'],
      [' [::] ', '::'],
      ['0.0.0.0', '0.0.0.0'],
      ['localhost', 'localhost'],
    ] as const) {
      assert.equal(readSettings(settings, { env: { SYNC_HOST: given } }).values.host, host);
    }
    assert.equal(readSettings(settings, { env: {} }).values.host, '127.0.0.1');
  });

  const NUMBER = numberSetting(...spec, { default: 5, min: 1, max: 10 });
  const TABLE: [string, Setting<unknown>, Record<string, unknown>][] = [
    [
      'number',
      NUMBER,
      {
        '7': 7,
        ' 7 ': 7,
        '0x7': 7,
        '': 'refused: must be a number',
        ' ': 'refused: must be a number',
        a: 'refused: must be a number',
        NaN: 'refused: must be a number',
        Infinity: 'refused: must be a number',
        '1e999': 'refused: must be a number',
        '1.5': 'refused: must be a whole number',
        '0': 'refused: must be between 1 and 10',
        '11': 'refused: must be between 1 and 10',
      },
    ],
    [
      'line',
      lineSetting(...spec, { maxCharacters: 10, not: ['.', '..'] }),
      {
        '.': 'refused: must not be . or ..',
        ' .. ': 'refused: must not be . or ..',
        '...': '...',
        ' production ': 'production',
        'eu-1 (dev)': 'eu-1 (dev)',
        ' ': 'refused: must be a line of 1 to 10 characters, without control characters',
        '12345678901': 'refused: must be a line of 1 to 10 characters, without control characters',
        'a\nb': 'refused: must be a line of 1 to 10 characters, without control characters',
        'a\u202eb': 'refused: must be a line of 1 to 10 characters, without control characters',
      },
    ],
    [
      'seconds',
      secondsSetting(...spec, { default: 1 }),
      {
        '0.25': 250,
        '3': 3000,
        '-1': 'refused: must be between 0 and 31536000',
        '1s': 'refused: must be a number',
      },
    ],
    [
      'flag',
      flagSetting(...spec),
      {
        true: true,
        YES: true,
        ' on ': true,
        '1': true,
        False: false,
        no: false,
        '0': false,
        off: false,
        '2': 'refused: must be true or false',
        tru: 'refused: must be true or false',
      },
    ],
    [
      'choice',
      choiceSetting(...spec, { choices: ['a', 'B'], default: 'a' }),
      {
        a: 'a',
        B: 'B',
        b: 'refused: must be one of a, B',
        '': 'refused: must be one of a, B',
      },
    ],
    [
      'choice in any case',
      choiceSetting(...spec, { choices: ['a', 'B'], default: 'a', ignoreCase: true }),
      {
        A: 'a',
        b: 'B',
        c: 'refused: must be one of a, B',
      },
    ],
    [
      'comma list',
      listSetting(...spec),
      {
        'a, b ,,c': ['a', 'b', 'c'],
        ',': [],
        'a:b': ['a:b'],
      },
    ],
    ['colon list', listSetting(...spec, { separator: ':' }), { 'a/b:.': ['a/b', '.'] }],
    [
      'URL',
      urlSetting(...spec, { default: 'http://x' }),
      {
        'http://h:1/': 'http://h:1',
        'wss://h/a//': 'wss://h/a',
        'http://h': 'http://h',
        h: 'refused: must be a URL',
        'http://h:99999': 'refused: must be a URL',
        'file:///etc/passwd': 'refused: must start with http://, https://, ws:// or wss://',
        'javascript:1': 'refused: must start with http://, https://, ws:// or wss://',
      },
    ],
    [
      'JSON',
      jsonSetting(...spec, { schema: z.strictObject({ a: z.number() }) }),
      {
        '{"a":1}': { a: 1 },
        '{"a":': 'refused: must be JSON: at line 1, column 6 there must be a JSON value, not the end, after {"…":',
        '1': 'refused: at the top: Invalid input: expected object, received number',
        '{"a":"x"}': 'refused: at a: Invalid input: expected number, received string',
      },
    ],
    ['text', textSetting(...spec), { ' a ': ' a ' }],
  ];
  for (const [name, setting, cases] of TABLE) {
    it(name, () => {
      for (const [text, value] of Object.entries(cases)) assert.deepEqual(read(setting, text), value, text);
    });
  }

  it('a default is the text that people write, and is read like one', () => {
    const settings = {
      number: NUMBER,
      seconds: secondsSetting(...spec, { default: 2.5 }),
      list: listSetting(...spec, { separator: ':', default: ['a', 'b'] }),
      text: textSetting(...spec),
      flag: opalFlagSetting(...spec),
      rate: rateSetting(...spec, { default: 'none' }),
    };
    assert.deepEqual(
      Object.values(settings).map(({ defaultText }) => defaultText),
      ['5', '2.5', 'a:b', undefined, 'false', 'none'],
    );
    const { values } = readSettings(settings, { env: {} });
    assert.deepEqual(Object.values(values), [5, 2500, ['a', 'b'], false, 'none']);
  });

  it('a flag says that it was turned on by the name of OPAL', () => {
    const settings = { flag: opalFlagSetting(...spec) };
    const value = (env: Record<string, string>, flags = {}) => readSettings(settings, { env, flags }).values.flag;
    assert.equal(value({ OPAL_X: 'on' }), 'opal');
    assert.equal(value({ OPAL_X: 'off' }), false);
    assert.equal(value({ OPAL_X: 'on' }, { x: 'on' }), true);
    assert.equal(value({ OPAL_X: 'on', SYNC_X: 'on' }), true);
  });

  it('names: the OPAL name is the default alias, another one or none where that is said', () => {
    assert.deepEqual(textSetting(...spec).aliases, ['OPAL_X']);
    assert.deepEqual(textSetting(...spec, { opal: 'OPAL_Y', alsoNamed: ['Y'] }).aliases, ['OPAL_Y', 'Y']);
    assert.deepEqual(textSetting(...spec, { opal: null }).aliases, []);
    assert.deepEqual(textSetting('POLICY_X', 'An x.').aliases, []);
    assert.deepEqual(textSetting(...spec, { formerly: 'SYNC_OLD' }).aliases, ['OPAL_X', 'SYNC_OLD']);
    assert.equal(flagName({ env: 'SYNC_POLICY_REPO_URL' }), 'policy-repo-url');
    assert.equal(flagName({ env: 'POLICY_BUNDLE_URL' }), 'policy-bundle-url');
  });
});
