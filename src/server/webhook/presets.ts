import type { WebhookParams } from './params.js';

/** The services whose webhooks are known by name (spec, presets table). */
export const WEBHOOK_PRESETS = {
  github: {
    secret_header_name: 'x-hub-signature-256',
    secret_type: 'signature',
    secret_parsing_regex: 'sha256=(.*)',
    event_header_name: 'X-GitHub-Event',
    event_request_key: null,
    push_event_value: 'push',
    match_sender_url: true,
  },
  gitlab: {
    secret_header_name: 'X-Gitlab-Token',
    secret_type: 'token',
    secret_parsing_regex: '(.*)',
    event_header_name: 'X-Gitlab-Event',
    event_request_key: null,
    push_event_value: 'Push Hook',
    match_sender_url: true,
  },
  azure: {
    secret_header_name: 'x-api-key',
    secret_type: 'token',
    secret_parsing_regex: '(.*)',
    event_header_name: null,
    event_request_key: 'eventType',
    push_event_value: 'git.push',
    match_sender_url: true,
  },
  bitbucket: {
    secret_header_name: 'x-hook-uuid',
    secret_type: 'token',
    secret_parsing_regex: '(.*)',
    event_header_name: 'x-event-key',
    event_request_key: null,
    push_event_value: 'repo:push',
    match_sender_url: true,
  },
} as const satisfies Record<string, WebhookParams>;

/** A name of {@link WEBHOOK_PRESETS}. */
export type WebhookPreset = keyof typeof WEBHOOK_PRESETS;

/**
 * Reads SYNC_POLICY_REPO_WEBHOOK_PARAMS as far as a value that `webhookParams` judges: the preset of that name, in any
 * case; a JSON value where the text starts as an object; otherwise the text itself, which the schema refuses with the
 * names that there are. Throws where the JSON cannot be parsed.
 */
export function readWebhookParams(text: string): unknown {
  const trimmed = text.trim();
  const name = trimmed.toLowerCase();
  if (Object.hasOwn(WEBHOOK_PRESETS, name)) return WEBHOOK_PRESETS[name as WebhookPreset];
  return trimmed.startsWith('{') ? JSON.parse(trimmed) : trimmed;
}
