import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as z from 'zod';
import { SyncError } from './errors.js';
import { Secret } from './log.js';
import {
  choiceSetting,
  flagName,
  flagSetting,
  jsonSetting,
  listSetting,
  loadSettings,
  numberSetting,
  opalFlagSetting,
  rateSetting,
  type Setting,
  secondsSetting,
  secretSetting,
  settingValues,
  textSetting,
  urlSetting,
} from './options.js';

const spec = ['SYNC_X', 'An x.'] as const;

/** The value of a text, or the message that refuses it. */
function read<T>(setting: Setting<T>, text: string): T | string {
  const { success, data, error } = setting.schema(setting.env).safeParse(text);
  return success ? data : `refused: ${error.issues[0]?.message}`;
}

describe('kinds of settings', () => {
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
        '{"a":': 'refused: must be JSON',
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
    const { values } = loadSettings(settings, { env: {} });
    assert.deepEqual(Object.values(values), [5, 2500, ['a', 'b'], false, undefined]);
  });

  it('a flag says that it was turned on by the name of OPAL', () => {
    const settings = { flag: opalFlagSetting(...spec) };
    const value = (env: Record<string, string>, flags = {}) => loadSettings(settings, { env, flags }).values.flag;
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

describe('loading settings', () => {
  const SETTINGS = {
    port: numberSetting('SYNC_PORT', 'A port.', { default: 1, max: 9 }),
    url: urlSetting('SYNC_URL', 'A URL.'),
    token: secretSetting('SYNC_TOKEN', 'A token.'),
    json: jsonSetting('SYNC_JSON', 'A JSON.', {
      schema: z.strictObject({ headers: z.record(z.string(), z.string()) }),
    }),
  };

  function problems(env: Record<string, string>, flags: Record<string, string> = {}): string {
    try {
      loadSettings(SETTINGS, { env, flags });
    } catch (error) {
      assert(error instanceof SyncError && error.code === 'config_invalid');
      return error.message;
    }
    throw new assert.AssertionError({ message: 'nothing was refused' });
  }

  it('flag before environment before alias before default, and says which', () => {
    const sources = { env: { SYNC_PORT: '3', OPAL_PORT: '4', OPAL_URL: 'http://o' }, flags: { port: '2' } };
    const { values, origins } = loadSettings(SETTINGS, sources);
    assert.deepEqual([values.port, values.url, values.json], [2, 'http://o', undefined]);
    assert.deepEqual([origins.port, origins.url, origins.json], ['flag', { env: 'OPAL_URL' }, 'default']);
    assert.equal(loadSettings(SETTINGS, { env: { SYNC_PORT: '3', OPAL_PORT: '4' } }).values.port, 3);
  });

  it('an empty variable is none, and the alias behind it counts', () => {
    const { values, origins } = loadSettings(SETTINGS, { env: { SYNC_PORT: '', OPAL_PORT: '4', SYNC_URL: '' } });
    assert.deepEqual([values.port, origins.port, values.url], [4, { env: 'OPAL_PORT' }, undefined]);
  });

  it('the result cannot be changed', () => {
    const { values } = loadSettings(SETTINGS, { env: {} });
    assert.throws(() => Object.assign(values, { port: 3 }), TypeError);
  });

  it('names every bad value at once, by the name that it was given under', () => {
    const text = problems({ OPAL_PORT: '99', SYNC_URL: 'nope' }, { json: '{' });
    assert.equal(
      text,
      'settings are not valid:\n  OPAL_PORT must be between 0 and 9 (is "99")\n  SYNC_URL must be a URL (is "nope")\n  --json must be JSON',
    );
  });

  it('never shows a JSON value, which may have tokens inside', () => {
    for (const json of [
      '{"headers":{"Authorization":"Bearer S3CRET"},}',
      '{"headers":{"a":{"S3CRET":1}}}',
      '"S3CRET"',
    ]) {
      assert(!problems({ SYNC_JSON: json }).includes('S3CRET'), json);
    }
  });

  it('hides credentials of a URL that is not one, and the rest of a long value', () => {
    const text = problems({ SYNC_URL: 'http://u:S3CRET@host:99999/x?token=S3CRET' });
    assert.match(text, /is "http:\/\/\*\*\*@host:99999\/x\?\*\*\*"/);
    assert(problems({ SYNC_PORT: 'x'.repeat(1000) }).length < 200);
  });

  it('a secret is a secret', () => {
    const { values } = loadSettings(SETTINGS, { env: { SYNC_TOKEN: 'S3CRET' } });
    assert(values.token instanceof Secret);
    assert.equal(values.token.reveal(), 'S3CRET');
  });

  it('lists names that no program has, which are most often typing errors', () => {
    const env = { SYNC_PROT: '1', SYNC_PORT: '1', OTHER: 'x', SYNC_THERE: '1' };
    assert.deepEqual(loadSettings(SETTINGS, { env }, ['SYNC_THERE']).unknown, ['SYNC_PROT']);
    const opal = { OPAL_NO_RPC_LOGS: 'true', OPALESCENT: 'x' };
    assert.deepEqual(loadSettings(SETTINGS, { env: opal }).unknown, ['OPAL_NO_RPC_LOGS']);
  });
});

describe('settings that a program gives as values', () => {
  const SETTINGS = {
    wait: secondsSetting('SYNC_WAIT', 'A time.', { default: 5, min: 1, max: 10 }),
    size: numberSetting('SYNC_SIZE', 'A size.', { default: 3, max: 9 }),
    on: flagSetting('SYNC_ON', 'A flag.'),
    old: opalFlagSetting('SYNC_OLD', 'A flag of OPAL.'),
    kind: choiceSetting('SYNC_KIND', 'A choice.', { choices: ['a', 'b'] }),
    url: urlSetting('SYNC_URL', 'A URL.'),
    token: secretSetting('SYNC_TOKEN', 'A secret.'),
    names: listSetting('SYNC_NAMES', 'A list.', { default: ['x'], parseItem: (item) => item.toLowerCase() }),
    rate: rateSetting('SYNC_RATE', 'A rate.', { default: '10 per second' }),
    json: jsonSetting('SYNC_JSON', 'JSON.', { schema: z.strictObject({ headers: z.record(z.string(), z.string()) }) }),
  };

  it('are completed with the defaults', () => {
    const { values: defaults } = loadSettings(SETTINGS, { env: {} });
    assert.deepEqual(settingValues(SETTINGS, {}), defaults);
    assert.deepEqual(settingValues(SETTINGS, { wait: undefined }), defaults);
    const values = settingValues(SETTINGS, {
      ...{ wait: 1500, on: true, kind: 'b', url: 'http://x/', token: 'T', names: ['A', 'b,c'] },
      json: { headers: { a: 'b' } },
    });
    const { token, ...plain } = values;
    assert.equal(token?.reveal(), 'T');
    assert.deepEqual(plain, {
      ...{ wait: 1500, size: 3, on: true, old: false, kind: 'b', url: 'http://x', names: ['a', 'b,c'] },
      ...{ rate: defaults.rate, json: { headers: { a: 'b' } } },
    });
    assert.throws(() => Object.assign(values, { wait: 1 }), TypeError);
  });

  it('may be those that were loaded', () => {
    const env = {
      ...{ SYNC_WAIT: '2.5', SYNC_ON: 'yes', OPAL_OLD: 'true', SYNC_KIND: 'a', SYNC_URL: 'http://x/', SYNC_TOKEN: 'T' },
      ...{ SYNC_NAMES: 'A,B', SYNC_RATE: '5/minute', SYNC_JSON: '{"headers":{"a":"b"}}' },
    };
    const { values } = loadSettings(SETTINGS, { env });
    assert.deepEqual(settingValues(SETTINGS, { ...values }), values);
  });

  it('are refused together, by property name, and no secret shows', () => {
    const wrong = {
      ...{ wait: 20_000, size: 1.5, on: 'yes', kind: 'c', url: 'x', token: 7, names: 'a', rate: 'often' },
      ...{ json: { headers: { a: 1 } }, Wait: 1, SYNC_SIZE: 1, other: 1 },
    } as unknown as Parameters<typeof settingValues<typeof SETTINGS>>[1];
    assert.throws(() => settingValues(SETTINGS, wrong), {
      code: 'config_invalid',
      message: [
        'settings are not valid:',
        'wait must be between 1000 and 10000 (milliseconds) (is "20000")',
        'size must be a whole number between 0 and 9 (is "1.5")',
        'on must be true or false (is "yes")',
        'kind must be one of a, b (is "c")',
        'url must be a URL (is "x")',
        'token must be a text or a Secret',
        'names must be a list of texts (is "a")',
        'rate must be a rate such as 10 per second (is "often")',
        'json at headers.a: Invalid input: expected string, received number',
        'there is no setting Wait: did you mean wait?',
        'there is no setting SYNC_SIZE: did you mean size?',
        'there is no setting other',
      ].join('\n  '),
    });
  });

  it('a name of every object is no setting', () => {
    assert.throws(() => settingValues(SETTINGS, { constructor: 1 } as object), { message: /no setting constructor/ });
  });
});
