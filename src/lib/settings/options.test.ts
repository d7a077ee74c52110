import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as z from 'zod';
import { SyncError } from '../errors.js';
import { Secret } from '../observe/log.js';
import { readSettings, settingValues } from './options.js';
import {
  choiceSetting,
  flagSetting,
  jsonSetting,
  listSetting,
  numberSetting,
  opalFlagSetting,
  rateSetting,
  secondsSetting,
  secretSetting,
  urlSetting,
} from './setting-kinds.js';

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
      readSettings(SETTINGS, { env, flags });
    } catch (error) {
      assert(error instanceof SyncError && error.code === 'config_invalid');
      return error.message;
    }
    throw new assert.AssertionError({ message: 'nothing was refused' });
  }

  it('flag before environment before alias before default, and says which', () => {
    const sources = { env: { SYNC_PORT: '3', OPAL_PORT: '4', OPAL_URL: 'http://o' }, flags: { port: '2' } };
    const { values, origins } = readSettings(SETTINGS, sources);
    assert.deepEqual([values.port, values.url, values.json], [2, 'http://o', undefined]);
    assert.deepEqual([origins.port, origins.url, origins.json], ['flag', { env: 'OPAL_URL' }, 'default']);
    assert.equal(readSettings(SETTINGS, { env: { SYNC_PORT: '3', OPAL_PORT: '4' } }).values.port, 3);
  });

  it('an empty variable is none, and the alias behind it counts', () => {
    const { values, origins } = readSettings(SETTINGS, { env: { SYNC_PORT: '', OPAL_PORT: '4', SYNC_URL: '' } });
    assert.deepEqual([values.port, origins.port, values.url], [4, { env: 'OPAL_PORT' }, undefined]);
  });

  it('the result cannot be changed', () => {
    const { values } = readSettings(SETTINGS, { env: {} });
    assert.throws(() => Object.assign(values, { port: 3 }), TypeError);
  });

  it('names every bad value at once, by the name that it was given under', () => {
    const text = problems({ OPAL_PORT: '99', SYNC_URL: 'nope' }, { json: '{' });
    assert.equal(
      text,
      'settings are not valid:\n  OPAL_PORT must be between 0 and 9 (is "99")\n  SYNC_URL must be a URL (is "nope")\n  --json must be JSON: at line 1, column 2 there must be a member name or "}", not the end, after {',
    );
  });

  it('never shows a JSON value, which may have tokens inside', () => {
    for (const json of [
      '{"headers":{"Authorization":"Bearer S3CRET"},}',
      '{"headers":{"a":{"S3CRET":1}}}',
      '"S3CRET"',
      'S3CRET',
      '"S3CRET',
      "'S3CRET'",
      '{"a":S3CRET}',
    ]) {
      assert(!problems({ SYNC_JSON: json }).includes('S3CRET'), json);
    }
  });

  it('quotes that somebody should have taken away are named, with what to do', () => {
    for (const value of ['"http://u:S3CRET@x"', "'http://x'", ' "http://x" ']) {
      const text = problems({ SYNC_URL: value });
      assert.match(text, /SYNC_URL has quotes around its value, which count: leave them out \(a shell .*\) \(is "/);
      assert(!text.includes('S3CRET'), text);
    }
    assert.match(problems({ SYNC_PORT: '"3"' }), /SYNC_PORT has quotes/);
    assert.match(problems({ SYNC_JSON: `'{"headers":{"a":"S3CRET"}}'` }), /SYNC_JSON has quotes[^"]*\)$/);
    assert.match(problems({}, { url: "'http://x'" }), /--url has quotes/);
    // Of a secret they may be a part.
    const { values, warnings } = readSettings(SETTINGS, { env: { SYNC_TOKEN: '"S3CRET"' } });
    assert.equal(values.token?.reveal(), '"S3CRET"');
    assert.match(warnings.join(), /^SYNC_TOKEN has quotes around its value[^"]*$/);
  });

  it('hides credentials of a URL that is not one, and the rest of a long value', () => {
    const text = problems({ SYNC_URL: 'http://u:S3CRET@host:99999/x?token=S3CRET' });
    assert.match(text, /is "http:\/\/\*\*\*@host:99999\/x\?\*\*\*"/);
    assert(problems({ SYNC_PORT: 'x'.repeat(1000) }).length < 200);
  });

  it('a secret is a secret', () => {
    const { values } = readSettings(SETTINGS, { env: { SYNC_TOKEN: 'S3CRET' } });
    assert(values.token instanceof Secret);
    assert.equal(values.token.reveal(), 'S3CRET');
  });

  it('a variable that can only be misspelt is an error that names the setting', () => {
    assert.equal(
      problems({ SYNC_PROT: '3', SYNC_TOKNE_FILE: '/x', SYNC_URL: 'nope', SYNC_THEER: '1', OPAL_TOKNE: 'x' }),
      [
        'settings are not valid:',
        'SYNC_URL must be a URL (is "nope")',
        'there is no setting OPAL_TOKNE: did you mean OPAL_TOKEN?',
        'there is no setting SYNC_PROT: did you mean SYNC_PORT?',
        'there is no setting SYNC_TOKNE_FILE: did you mean SYNC_TOKEN_FILE?',
      ].join('\n  '),
    );
    const other = () => readSettings(SETTINGS, { env: { SYNC_THEER: '1' } }, ['SYNC_THERE']);
    assert.throws(other, { message: /no setting SYNC_THEER: did you mean SYNC_THERE\?/ });
    assert.deepEqual(
      readSettings(SETTINGS, { env: { SYNC_PROT: '' } }).unknown,
      ['SYNC_PROT'],
      'an empty one is not set',
    );
  });

  it('lists names of others, and those that OPAL may have', () => {
    const env = { SYNC_GATEWAY_MODE: '1', SYNC_PORT: '1', OTHER: 'x', SYNC_THERE: '1' };
    assert.deepEqual(readSettings(SETTINGS, { env }, ['SYNC_THERE']).unknown, ['SYNC_GATEWAY_MODE']);
    const opal = { OPAL_NO_RPC_LOGS: 'true', OPAL_PROT: '', OPALESCENT: 'x' };
    assert.deepEqual(readSettings(SETTINGS, { env: opal }).unknown, ['OPAL_NO_RPC_LOGS', 'OPAL_PROT']);
  });

  it('what Kubernetes says of a Service is no setting, whatever the Service is called', () => {
    const service = (name: string, port: number): Record<string, string> => ({
      [`${name}_SERVICE_HOST`]: '10.0.0.1',
      [`${name}_SERVICE_PORT`]: String(port),
      [`${name}_SERVICE_PORT_HTTP`]: String(port),
      [`${name}_PORT`]: `tcp://10.0.0.1:${port}`,
      [`${name}_PORT_${port}_TCP`]: `tcp://10.0.0.1:${port}`,
      [`${name}_PORT_${port}_TCP_PROTO`]: 'tcp',
      [`${name}_PORT_${port}_TCP_PORT`]: String(port),
      [`${name}_PORT_${port}_TCP_ADDR`]: '10.0.0.1',
    });
    for (const name of ['SYNC_SERVER', 'SYNC_CLIENT', 'SYNC_TOKEN', 'OPAL_SERVER', 'SYNC_URL']) {
      const { unknown, warnings, values } = readSettings(SETTINGS, { env: service(name, 7002) });
      assert.deepEqual([unknown, warnings, values.port], [[], [], 1], name);
    }
    // A Service that is called `sync`: the name of a setting.
    const { values, warnings, origins } = readSettings(SETTINGS, { env: service('SYNC', 7002) });
    assert.deepEqual([values.port, origins.port, warnings.length], [1, 'default', 1]);
    assert.match(
      warnings[0] ?? '',
      /SYNC_PORT is what Kubernetes says of a Service .* enableServiceLinks: false .* --port/,
    );
    assert.equal(readSettings(SETTINGS, { env: { ...service('SYNC', 7), SYNC_PORT: '3' } }).values.port, 3);
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
    const { values: defaults } = readSettings(SETTINGS, { env: {} });
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
    const { values } = readSettings(SETTINGS, { env });
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
