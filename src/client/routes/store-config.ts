import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { addRoute } from '../../http/route.js';
import { redactUrl, type Secret } from '../../lib/log.js';

/** How the client presents itself to its engine (opal-protocol P6.2). */
export interface StoreAuth {
  readonly type: 'none' | 'token' | 'oauth' | 'tls';
  readonly token?: Secret | undefined;
  readonly oauthServer?: string | undefined;
  readonly oauthClientId?: string | undefined;
  readonly oauthClientSecret?: Secret | undefined;
}

/** What is told of the engine. */
export interface StoreConfigOptions {
  readonly url: string;
  readonly auth: StoreAuth;
  /** Authentication of the client API is on, and the settings do not keep secrets back. */
  readonly showsSecrets: boolean;
}

const storeDetails = z.object({
  type: z.literal('OPA'),
  url: z.string(),
  token: z.string().optional(),
  auth_type: z.enum(['none', 'token', 'oauth', 'tls']),
  oauth_client_id: z.string().optional(),
  oauth_client_secret: z.string().optional(),
  oauth_server: z.string().optional(),
});

/**
 * `GET /policy-store/config` (opal-protocol P2.6): where the engine is and how one gets in. With authentication off nobody
 * gets a secret (opal-protocol P10.5). A member without a value is left out.
 */
export function storeConfigRoute(app: FastifyInstance, options: StoreConfigOptions): void {
  addRoute(
    app,
    {
      method: 'GET',
      path: '/policy-store/config',
      access: ['listener'],
      tag: 'Engine',
      summary: 'Where the policy engine is, and how one gets in',
      description: 'Deprecated in OPAL; here for those who script against it.',
      answers: { 200: { description: 'The engine', schema: storeDetails } },
    },
    () => storeConfig(options),
  );
}

/** The answer; members with `undefined` are not part of the JSON. */
function storeConfig({ url, auth, showsSecrets }: StoreConfigOptions): z.infer<typeof storeDetails> {
  const secret = (value: Secret | undefined): string | undefined => (showsSecrets ? value?.reveal() : undefined);
  return {
    type: 'OPA',
    url: showsSecrets ? url : redactUrl(url).replace(/\/$/, ''),
    token: secret(auth.token),
    auth_type: auth.type,
    oauth_client_id: auth.oauthClientId,
    oauth_client_secret: secret(auth.oauthClientSecret),
    oauth_server: auth.oauthServer,
  };
}
