import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSettings } from '../../../lib/settings/options.js';
import { SERVER_SETTINGS } from '../../options.js';
import { WEBHOOK_PRESETS, type WebhookParams } from './params.js';

/** The value that the setting gives for a text. */
function params(text: string): WebhookParams | undefined {
  const env = { SYNC_POLICY_REPO_WEBHOOK_PARAMS: text };
  return readSettings(SERVER_SETTINGS, { env }).values.policyRepoWebhookParams;
}

const MODEL = {
  secret_header_name: 'X-Gitea-Signature',
  secret_type: 'signature',
  secret_parsing_regex: '(.*)',
  event_header_name: 'X-Gitea-Event',
  push_event_value: 'push',
};

test('the presets are those of the specification', () => {
  const rows = Object.entries(WEBHOOK_PRESETS).map(([name, preset]) => [
    name,
    preset.secret_header_name.toLowerCase(),
    preset.secret_type,
    preset.secret_parsing_regex,
    preset.event_header_name ?? `body ${preset.event_request_key}`,
    preset.push_event_value,
    preset.match_sender_url,
  ]);
  assert.deepEqual(rows, [
    ['github', 'x-hub-signature-256', 'signature', 'sha256=(.*)', 'X-GitHub-Event', 'push', true],
    ['gitlab', 'x-gitlab-token', 'token', '(.*)', 'X-Gitlab-Event', 'Push Hook', true],
    ['azure', 'x-api-key', 'token', '(.*)', 'body eventType', 'git.push', true],
    ['bitbucket', 'x-hook-uuid', 'token', '(.*)', 'x-event-key', 'repo:push', true],
    ['bitbucket-data-center', 'x-hub-signature', 'signature', 'sha256=(.*)', 'x-event-key', 'repo:refs_changed', true],
  ]);
});

test('a preset is chosen by its name in any case, and is a valid model itself', () => {
  for (const [name, preset] of Object.entries(WEBHOOK_PRESETS)) {
    assert.deepEqual(params(name), preset);
    assert.deepEqual(params(` ${name.toUpperCase()} `), preset);
    assert.deepEqual(params(JSON.stringify(preset)), preset);
  }
});

test('the full model may leave out what has a default', () => {
  assert.deepEqual(params(JSON.stringify(MODEL)), { ...MODEL, event_request_key: null, match_sender_url: true });
  const both = { ...MODEL, event_request_key: 'eventType', match_sender_url: false };
  assert.deepEqual(params(JSON.stringify(both)), both);
  const byBody = { ...MODEL, event_header_name: null, event_request_key: 'eventType' };
  assert.equal(params(JSON.stringify(byBody))?.event_header_name, null);
});

test('a wrong model is a configuration error that says what is wrong', () => {
  const without = (name: keyof typeof MODEL): object => ({ ...MODEL, [name]: undefined });
  const wrong: [string | object, RegExp][] = [
    ['gitbub', /must be github, gitlab, azure, bitbucket, bitbucket-data-center, or a JSON object/],
    ['__proto__', /must be github/],
    ['[]', /must be github/],
    ['{"secret_type":', /must be JSON/],
    [without('secret_header_name'), /secret_header_name/],
    [without('secret_parsing_regex'), /secret_parsing_regex/],
    [without('push_event_value'), /push_event_value/],
    [without('event_header_name'), /event_header_name or event_request_key is required/],
    [{ ...MODEL, secret_type: 'hmac' }, /secret_type/],
    [{ ...MODEL, secret_header_name: 'two words' }, /secret_header_name: must be a header name/],
    [{ ...MODEL, push_event_value: 1 }, /push_event_value/],
    [{ ...MODEL, match_sender_ulr: false }, /match_sender_ulr/],
  ];
  for (const [value, message] of wrong) {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    assert.throws(() => params(text), { code: 'config_invalid', message }, text);
  }
});
