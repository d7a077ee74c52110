import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { addRoute } from '../../http/route.js';
import { redactUrl, type Secret } from '../../lib/log.js';
import type { EngineAuthSettings } from '../options.js';

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
 * `GET /policy-store/config` (opal-protocol P2.6): where the engine is and how to get in. With authentication off nobody
 * gets a secret (opal-protocol P10.5): then `showsSecrets` is false. A member without a value is left out.
 */
export function storeConfigRoute(app: FastifyInstance, settings: EngineAuthSettings, showsSecrets: boolean): void {
  addRoute(
    app,
    {
      method: 'GET',
      path: '/policy-store/config',
      access: ['listener'],
      limited: 'nothing',
      tag: 'Engine',
      summary: 'Where the policy engine is, and how to get in',
      description: 'Deprecated in OPAL; here for those who script against it.',
      responses: { 200: { description: 'The engine', schema: storeDetails } },
    },
    () => storeConfig(settings, showsSecrets),
  );
}

function storeConfig(settings: EngineAuthSettings, showsSecrets: boolean): z.infer<typeof storeDetails> {
  const secret = (value: Secret | undefined): string | undefined => (showsSecrets ? value?.reveal() : undefined);
  const address = (url: string): string => (showsSecrets ? url : redactUrl(url).replace(/\/$/, ''));
  return {
    type: 'OPA',
    url: address(settings.engineUrl),
    token: secret(settings.engineAuthToken),
    auth_type: settings.engineAuthType,
    oauth_client_id: settings.engineOauthClientId,
    oauth_client_secret: secret(settings.engineOauthClientSecret),
    oauth_server: settings.engineOauthServer && address(settings.engineOauthServer),
  };
}
