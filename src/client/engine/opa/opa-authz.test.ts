import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AuthzSettings, engineAccessKind, makeAuthz } from './opa-authz.js';

const settings = (more: Partial<AuthzSettings> = {}): AuthzSettings => ({
  engineUrl: 'http://localhost:8181',
  inlineEngineOpen: false,
  inlineEngineConfig: undefined,
  inlineEngineOrigins: [],
  inlineEngineBuiltinsOff: [],
  ...more,
});

test('who guards the engine: we do unless it is opened, not ours, or guarded by the operator', () => {
  const kind = (more: Partial<AuthzSettings>): string => engineAccessKind(settings(more), 'inline');
  assert.equal(kind({}), 'token');
  assert.equal(kind({ inlineEngineConfig: { addr: '0.0.0.0:8181' } }), 'token');
  assert.equal(kind({ inlineEngineOpen: true }), 'open');
  assert.equal(kind({ inlineEngineConfig: { authorization: 'off' } }), 'open');
  assert.equal(kind({ inlineEngineConfig: { authentication: 'token' } }), 'open');
  assert.equal(kind({ inlineEngineConfig: { authentication: 'token', authorization: 'basic' } }), 'own');
  assert.equal(kind({ inlineEngineConfig: { authentication: 'tls' } }), 'own');
  const open = settings({ inlineEngineOpen: true });
  assert.equal(engineAccessKind(open, 'external'), 'external');
  assert.equal(engineAccessKind(settings(), 'embedded'), 'embedded');
});

test('the policy has the hash of the token and never the token; each start has another', () => {
  const authz = makeAuthz(settings());
  assert(!authz.rego.includes(authz.token.reveal()));
  assert.match(authz.rego, /== "[0-9a-f]{64}"/);
  assert.notEqual(makeAuthz(settings()).token.reveal(), authz.token.reveal());
});

test('pages of the engine itself may ask: by its address, by loopback names at its port, and those that are listed', () => {
  const own = (more: Partial<AuthzSettings>): unknown =>
    JSON.parse(`[${/own_origins := \{(.*)\}/.exec(makeAuthz(settings(more)).rego)?.[1]}]`);
  const config = { addr: '0.0.0.0:9000' };
  assert.deepEqual(own({ inlineEngineConfig: config, inlineEngineOrigins: ['https://app.example'] }), [
    'http://localhost:8181',
    'http://localhost:9000',
    'http://127.0.0.1:9000',
    'http://[::1]:9000',
    'https://app.example',
  ]);
});
