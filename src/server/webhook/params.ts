import * as z from 'zod';

/** A header name (RFC 9110, token). */
const headerName = z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'must be a header name');

/**
 * How a git service sends its webhooks (spec "Webhook parameters model"; `match_sender_url` and the defaults from
 * protocol-facts 2.4). An unknown member is refused, so that a typing error does not silently change who is believed.
 */
export const webhookParams = z
  .strictObject(
    {
      /** Header that carries the secret. */
      secret_header_name: headerName,
      /** `token`: the secret itself; `signature`: hex HMAC-SHA256 of the body with the secret as key. */
      secret_type: z.enum(['token', 'signature']),
      /** Finds the secret in that header: its first match; of that the first group, where there is one. RE2 syntax. */
      secret_parsing_regex: z.string().min(1).max(1000),
      /** Header that names the event. Wins over `event_request_key`. */
      event_header_name: headerName.nullable().default(null),
      /** Key of the JSON body that names the event. */
      event_request_key: z.string().min(1).nullable().default(null),
      /** The event that means a push. */
      push_event_value: z.string().min(1),
      /** False: every push counts, whatever repository it names. */
      match_sender_url: z.boolean().default(true),
    },
    {
      error: ({ code }) =>
        code === 'invalid_type' ? 'must be github, gitlab, azure, bitbucket, or a JSON object' : undefined,
    },
  )
  .refine((params) => params.event_header_name !== null || params.event_request_key !== null, {
    error: 'event_header_name or event_request_key is required',
  });

/** A value of {@link webhookParams}. */
export type WebhookParams = z.infer<typeof webhookParams>;
