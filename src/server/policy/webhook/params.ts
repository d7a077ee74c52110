import * as z from 'zod';
import { parseJson } from '../../../lib/json/json.js';

/** Services that send the secret itself in a header. */
const TOKEN = {
  secret_type: 'token',
  secret_parsing_regex: '(.*)',
  event_header_name: null,
  event_request_key: null,
  match_sender_url: true,
} as const;

/** Webhook formats of known services, by name (specification "Webhook presets"). */
export const WEBHOOK_PRESETS = {
  github: {
    ...TOKEN,
    secret_header_name: 'x-hub-signature-256',
    secret_type: 'signature',
    secret_parsing_regex: 'sha256=(.*)',
    event_header_name: 'X-GitHub-Event',
    push_event_value: 'push',
  },
  gitlab: {
    ...TOKEN,
    secret_header_name: 'X-Gitlab-Token',
    event_header_name: 'X-Gitlab-Event',
    push_event_value: 'Push Hook',
  },
  azure: {
    ...TOKEN,
    secret_header_name: 'x-api-key',
    event_request_key: 'eventType',
    push_event_value: 'git.push',
  },
  bitbucket: {
    ...TOKEN,
    secret_header_name: 'x-hook-uuid',
    event_header_name: 'x-event-key',
    push_event_value: 'repo:push',
  },
  'bitbucket-data-center': {
    ...TOKEN,
    secret_header_name: 'x-hub-signature',
    secret_type: 'signature',
    secret_parsing_regex: 'sha256=(.*)',
    event_header_name: 'x-event-key',
    push_event_value: 'repo:refs_changed',
  },
} as const satisfies Record<string, WebhookParams>;

/** A name of {@link WEBHOOK_PRESETS}. */
export type WebhookPreset = keyof typeof WEBHOOK_PRESETS;

/**
 * Reads SYNC_POLICY_REPO_WEBHOOK_PARAMS into a value for `webhookParams`: the preset of that name,
 * in any case; the JSON value if the text starts with `{`; otherwise the text itself, which the
 * schema rejects with a list of the presets. Throws if the JSON is invalid.
 */
export function readWebhookParams(text: string): unknown {
  const trimmed = text.trim();
  const name = trimmed.toLowerCase();
  if (Object.hasOwn(WEBHOOK_PRESETS, name)) return WEBHOOK_PRESETS[name as WebhookPreset];
  return trimmed.startsWith('{') ? parseJson(trimmed) : trimmed;
}

/** A header name (RFC 9110, token). */
const headerName = z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'must be a header name');

/**
 * How a git service sends its webhooks (specification "Webhook parameters"; `match_sender_url` and
 * the defaults from opal-protocol P2.4). Rejects unknown members, so that a typing error does not
 * silently change who is trusted.
 */
export const webhookParams = z
  .strictObject(
    {
      /** Header that carries the secret. */
      secret_header_name: headerName,
      /**
       * `token`: the secret itself; `signature`: hex HMAC-SHA256 of the body with the secret as
       * key.
       */
      secret_type: z.enum(['token', 'signature']),
      /**
       * Finds the secret in that header: the first match, or its first group if it has one. RE2
       * syntax.
       */
      secret_parsing_regex: z.string().min(1).max(1000),
      /** Header that names the event. Takes precedence over `event_request_key`. */
      event_header_name: headerName.nullable().default(null),
      /** Key of the JSON body that names the event. */
      event_request_key: z.string().min(1).nullable().default(null),
      /** The event that means a push. */
      push_event_value: z.string().min(1),
      /** False: every push counts, regardless of its repository. */
      match_sender_url: z.boolean().default(true),
    },
    {
      error: ({ code }) =>
        code === 'invalid_type'
          ? 'must be github, gitlab, azure, bitbucket, bitbucket-data-center, or a JSON object'
          : undefined,
    },
  )
  .refine((params) => params.event_header_name !== null || params.event_request_key !== null, {
    error: 'event_header_name or event_request_key is required',
  });

/** A value of {@link webhookParams}. */
export type WebhookParams = z.infer<typeof webhookParams>;
