import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Secret } from '../lib/observe/log.js';
import { readSettings } from '../lib/settings/options.js';
import { CLIENT_SETTINGS } from './options.js';
import { clientStartFacts, engineFact } from './start-facts.js';

const WHO = { version: '1.2.3', nodeVersion: '24.1.0', clientId: 'shop-1', hasApi: true };

function linesOf(env: Record<string, string>): string[] {
  const { values } = readSettings(CLIENT_SETTINGS, { env });
  return clientStartFacts(values, WHO).map(({ about, text }) => `${about}: ${text}`);
}

it('says what a client follows, where, and who may call it, one fact a line', () => {
  assert.deepEqual(linesOf({}), [
    'version: 1.2.3, Node 24.1.0, client shop-1',
    'server: http://localhost:7002/, no token is sent',
    'data: topics policy_data',
    'policy: directories .',
    'authentication of the client API: off, there is no SYNC_AUTH_PUBLIC_KEY: whoever reaches it may call it',
  ]);
  const env = {
    SYNC_SERVER_URL: 'https://ann:pass@sync.example/?key=word',
    SYNC_CLIENT_TOKEN: 'hush',
    SYNC_DATA_TOPICS: 'acme,shop',
    SYNC_POLICY_SUBSCRIPTION_DIRS: 'app:lib',
    SYNC_AUTH_PUBLIC_KEY: 'a key',
  };
  assert.deepEqual(linesOf(env).slice(1), [
    'server: https://***@sync.example/?***, the token of SYNC_CLIENT_TOKEN is sent',
    'data: topics acme, shop',
    'policy: directories app, lib; files above them are left out, among them the data.json of the repository root',
    'authentication of the client API: on',
  ]);
  assert.equal(linesOf({ SYNC_POLICY_SUBSCRIPTION_DIRS: 'app:./' })[3], 'policy: directories app, ./');
  const off = linesOf({ SYNC_DATA_UPDATER_ENABLED: 'false', SYNC_POLICY_UPDATER_ENABLED: 'false' });
  assert.deepEqual(off.slice(2, 4), [
    'data: off by SYNC_DATA_UPDATER_ENABLED',
    'policy: off by SYNC_POLICY_UPDATER_ENABLED',
  ]);
});

it('says nothing of who may call an API that is not there', () => {
  const { values } = readSettings(CLIENT_SETTINGS, { env: {} });
  const last = clientStartFacts(values, { ...WHO, hasApi: false }).at(-1);
  assert.deepEqual(last, { about: 'client API', text: 'none, there is no port' });
});

it('says which engine it has, and where', () => {
  const { values } = readSettings(CLIENT_SETTINGS, { env: { SYNC_POLICY_STORE_URL: 'https://u:p@opa.example' } });
  assert.deepEqual(engineFact(values.engineUrl, { kind: 'external' }), {
    about: 'engine',
    text: 'external OPA at https://***@opa.example/',
    fields: { engine: 'https://***@opa.example/', engine_kind: 'external' },
  });
  assert.equal(
    engineFact(values.engineUrl, { kind: 'embedded', missing: 'there is no "opa" on PATH' }).text,
    'embedded OPA at https://***@opa.example/, since there is no OPA program here (there is no "opa" on PATH); for one run "policysync opa get", or set SYNC_ENGINE',
  );
  assert.deepEqual(engineFact(undefined, { kind: 'embedded' }), {
    about: 'engine',
    text: 'embedded OPA without a port',
    fields: { engine_kind: 'embedded' },
  });
});

it('has the same as fields, without secrets', () => {
  const { values } = readSettings(CLIENT_SETTINGS, { env: {} });
  const facts = clientStartFacts({ ...values, clientToken: new Secret('hush') }, WHO);
  const fields = Object.assign({}, ...facts.map((fact) => fact.fields)) as Record<string, unknown>;
  assert.deepEqual(fields, {
    version: '1.2.3',
    node: '24.1.0',
    client_id: 'shop-1',
    server: 'http://localhost:7002/',
    sends_token: true,
    topics: ['policy_data'],
    directories: ['.'],
    authentication: 'off',
  });
});
