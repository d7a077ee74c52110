import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SyncError } from '../../lib/errors.js';
import { readSettings } from '../../lib/settings/options.js';
import { CLIENT_SETTINGS } from '../options.js';
import { selectEngine } from './engine-kind.js';

const config = (value: object): Record<string, string> => ({ SYNC_INLINE_ENGINE_CONFIG: JSON.stringify(value) });
const EMBEDDED = { SYNC_ENGINE: 'embedded' };

function select(env: Record<string, string>): string | undefined {
  const selected = selectEngine(readSettings(CLIENT_SETTINGS, { env }).values);
  return selected && `${selected.kind} by ${selected.by}`;
}

describe('the engine that settings select', () => {
  const cases: readonly [what: string, env: Record<string, string>, expected: string | undefined][] = [
    ['none of them: what is on the machine decides', {}, undefined],
    ['true is the default', { SYNC_INLINE_ENGINE_ENABLED: 'true' }, undefined],
    ['inline', { SYNC_ENGINE: 'inline' }, 'inline by SYNC_ENGINE'],
    ['external', { SYNC_ENGINE: 'external' }, 'external by SYNC_ENGINE'],
    ['embedded', EMBEDDED, 'embedded by SYNC_ENGINE'],
    ['no inline engine', { SYNC_INLINE_ENGINE_ENABLED: 'false' }, 'external by SYNC_INLINE_ENGINE_ENABLED'],
    ["no inline engine by OPAL's name", { OPAL_INLINE_OPA_ENABLED: 'False' }, 'external by SYNC_INLINE_ENGINE_ENABLED'],
    ['external twice', { SYNC_ENGINE: 'external', SYNC_INLINE_ENGINE_ENABLED: 'false' }, 'external by SYNC_ENGINE'],
    [
      'external, with a program that checks policies',
      { SYNC_ENGINE: 'external', SYNC_INLINE_ENGINE_EXEC_PATH: '/opt/opa' },
      'external by SYNC_ENGINE',
    ],
    ['a program', { SYNC_INLINE_ENGINE_EXEC_PATH: '/opt/opa' }, 'inline by SYNC_INLINE_ENGINE_EXEC_PATH'],
    ['an open engine', { SYNC_INLINE_ENGINE_OPEN: 'true' }, 'inline by SYNC_INLINE_ENGINE_OPEN'],
    [
      'built-in functions that are off',
      { SYNC_INLINE_ENGINE_BUILTINS_OFF: 'http.send' },
      'inline by SYNC_INLINE_ENGINE_BUILTINS_OFF',
    ],
    ['variables for OPA', { SYNC_INLINE_ENGINE_ENV: 'REGION' }, 'inline by SYNC_INLINE_ENGINE_ENV'],
    [
      'options of its program',
      config({ authorization: 'off', files: [] }),
      'inline by authorization, files of SYNC_INLINE_ENGINE_CONFIG',
    ],
    ['options that each engine of ours follows', config({ addr: '0.0.0.0:8181', v0_compatible: true }), undefined],
    [
      'the same with embedded',
      { ...EMBEDDED, ...config({ addr: ':8181', log_level: 'debug' }) },
      'embedded by SYNC_ENGINE',
    ],
    [
      'external wins over an option of inline',
      { SYNC_INLINE_ENGINE_ENABLED: 'false', SYNC_INLINE_ENGINE_OPEN: 'true' },
      'external by SYNC_INLINE_ENGINE_ENABLED',
    ],
  ];
  for (const [what, env, expected] of cases) it(what, () => assert.equal(select(env), expected));
});

describe('settings that contradict each other', () => {
  const cases: readonly [what: string, env: Record<string, string>, ...says: RegExp[]][] = [
    [
      'inline, and none',
      { SYNC_ENGINE: 'inline', SYNC_INLINE_ENGINE_ENABLED: 'false' },
      /SYNC_ENGINE is inline.*unset one/,
    ],
    ['embedded, and external', { ...EMBEDDED, OPAL_INLINE_OPA_ENABLED: 'false' }, /OPAL_INLINE_OPA_ENABLED\) is false/],
    [
      'embedded, and options of inline, all of them at once',
      {
        ...EMBEDDED,
        SYNC_INLINE_ENGINE_EXEC_PATH: '/opt/opa',
        SYNC_INLINE_ENGINE_OPEN: 'true',
        SYNC_INLINE_ENGINE_BUILTINS_OFF: 'http.send',
        SYNC_INLINE_ENGINE_ENV: 'REGION',
        ...config({ tls_cert_file: 'a.pem', authentication: 'token' }),
      },
      /EXEC_PATH, SYNC_INLINE_ENGINE_OPEN, SYNC_INLINE_ENGINE_BUILTINS_OFF, SYNC_INLINE_ENGINE_ENV/,
      /authentication, tls_cert_file of SYNC_INLINE_ENGINE_CONFIG: unset them, or set SYNC_ENGINE=inline/,
    ],
    [
      'embedded, and https',
      { ...EMBEDDED, SYNC_POLICY_STORE_URL: 'https://localhost:8181' },
      /does not serve: start it with/,
    ],
  ];
  for (const [what, env, ...says] of cases) {
    it(what, () => {
      assert.throws(
        () => select(env),
        (error) => {
          assert(error instanceof SyncError && error.code === 'config_invalid', String(error));
          for (const text of says) assert.match(error.message, text);
          return true;
        },
      );
    });
  }
});
