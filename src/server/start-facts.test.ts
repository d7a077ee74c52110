import assert from 'node:assert/strict';
import { it } from 'node:test';
import { readSettings } from '../lib/settings/options.js';
import { SERVER_SETTINGS, type ServerSettings } from './options.js';
import { logFact, serverStartFacts, startWarnings } from './start-facts.js';

const WHO = { version: '1.2.3', nodeVersion: '24.1.0' };
const LOG = { epoch: 'e', head: 7, durability: { level: 'durable' } } as const;

function settings(env: Record<string, string>): ServerSettings & { stateDir: string } {
  return { ...readSettings(SERVER_SETTINGS, { env }).values, stateDir: '/state' };
}

function linesOf(env: Record<string, string>): string[] {
  return serverStartFacts(settings(env), WHO).map(({ about, text }) => `${about}: ${text}`);
}

it('says what a server follows, how, and who may call it, one fact a line', () => {
  assert.deepEqual(linesOf({}), [
    'version: 1.2.3, Node 24.1.0',
    'policy: none, SYNC_POLICY_REPO_URL is not set',
    'authentication: off, and only this machine reaches the API',
  ]);
  assert.equal(
    linesOf({ SYNC_SERVER_HOST: '0.0.0.0' })[2],
    'authentication: off, there are no keys: whoever reaches the server may do everything',
  );
  const repo = { SYNC_POLICY_REPO_URL: 'https://bot:hush@git.example/policy.git' };
  for (const [env, how] of [
    [{}, 'checked with any webhook, not polled'],
    [{ SYNC_POLICY_REPO_WEBHOOK_SECRET: 'hush' }, 'checked with a webhook with the secret, not polled'],
    [{ SYNC_POLICY_REPO_POLLING_INTERVAL: '2.5' }, 'checked every 2.5 s and with any webhook'],
  ] as const) {
    assert.equal(linesOf({ ...repo, ...env })[1], `policy: https://git.example/policy.git, its default branch, ${how}`);
  }
  const api = { SYNC_POLICY_SOURCE_TYPE: 'API', SYNC_POLICY_BUNDLE_URL: 'https://b:hush@bundles.example/x?sig=hush' };
  assert.equal(
    linesOf({ ...api, SYNC_POLICY_REPO_POLLING_INTERVAL: '60', SYNC_AUTH_PUBLIC_KEY: 'a key' })[1],
    'policy: https://bundles.example/x/bundle.tar.gz, checked every 60 s and with a webhook with a token of a datasource',
  );
  assert.equal(linesOf({ SYNC_AUTH_PUBLIC_KEY: 'a key' })[2], 'authentication: on');
});

it('says where the update log is, who shares it and how far it can be trusted', () => {
  assert.equal(logFact(settings({}), LOG).text, '/state, of this server alone, durable');
  const shared = settings({ SYNC_BROADCAST_URI: 'redis://:hush@cache.example:6379/1' });
  const durability = { level: 'weak', reason: 'appendfsync is everysec' } as const;
  const fact = logFact(shared, { ...LOG, durability });
  assert.equal(
    fact.text,
    'redis://***@cache.example:6379/1, shared by all servers with this backbone, WEAK durability (appendfsync is everysec)',
  );
  assert.deepEqual(fact.fields, {
    update_log: 'redis://***@cache.example:6379/1',
    backbone: true,
    durability: 'weak',
    epoch: 'e',
    head: 7,
  });
});

it('warns of a master token without keys, and of a repository that nobody has looked at', () => {
  const repo = { SYNC_POLICY_REPO_URL: 'https://git.example/policy.git' };
  const cases: [Record<string, string>, RegExp[]][] = [
    [{}, []],
    [
      { SYNC_AUTH_MASTER_TOKEN: 'hush' },
      [/^SYNC_AUTH_MASTER_TOKEN is set, and there are no keys: authentication is off/],
    ],
    [{ SYNC_AUTH_MASTER_TOKEN: 'hush', SYNC_AUTH_PUBLIC_KEY: 'a key' }, []],
    [
      repo,
      [
        /^SYNC_POLICY_REPO_POLLING_INTERVAL is 0 and SYNC_POLICY_REPO_WEBHOOK_SECRET is not set: .* Set one of the two$/,
      ],
    ],
    [{ ...repo, SYNC_POLICY_REPO_POLLING_INTERVAL: '5' }, []],
    [
      { ...repo, SYNC_POLICY_REPO_POLLING_INTERVAL: '5', SYNC_SERVER_HOST: '0.0.0.0' },
      [/^SYNC_POLICY_REPO_WEBHOOK_SECRET is not set: whoever/],
    ],
    [{ ...repo, SYNC_POLICY_REPO_WEBHOOK_SECRET: 'hush' }, []],
    [{ SYNC_POLICY_SOURCE_TYPE: 'API', SYNC_POLICY_BUNDLE_URL: 'https://b.example' }, []],
  ];
  for (const [env, expected] of cases) {
    const warnings = startWarnings(settings(env));
    assert.equal(warnings.length, expected.length, warnings.join('\n'));
    for (const [index, what] of expected.entries()) assert.match(warnings[index] ?? '', what);
    assert.doesNotMatch(warnings.join(), /hush/);
  }
});
