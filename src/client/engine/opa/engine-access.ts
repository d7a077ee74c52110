import { type OutgoingTls, outgoingTls, pemFile, TlsFiles } from '../../../lib/net/tls.js';
import type { Logger } from '../../../lib/observe/log.js';
import { createDispatcher } from '../../outbound/dispatcher.js';
import type { EngineKind } from '../engine-kind.js';
import { type EngineAuth, fixedAuth, Oauth } from './engine-auth.js';
import { checkEngineAccess, type EngineAccessSettings } from './engine-auth-rules.js';

/** Access to the engine: credentials, trusted authorities and our certificate. */
export interface EngineAccess {
  readonly auth: EngineAuth;
  readonly tls: OutgoingTls;
  close(): Promise<void>;
}

/** Timeout of a token request to an OAuth server. */
const OAUTH_TIMEOUT_MS = 10_000;

/**
 * Opens the access of the settings (opal-protocol P6.2). SYNC_POLICY_STORE_TLS_CA is the only
 * trusted authority for the engine's certificate, with every kind of authentication. `outgoing` is
 * for the OAuth server. Rejects with `config_invalid`.
 */
export async function openEngineAccess(
  settings: EngineAccessSettings,
  deps: {
    kind: EngineKind;
    log: Logger;
    env: Readonly<Record<string, string | undefined>>;
    outgoing?: OutgoingTls | undefined;
  },
): Promise<EngineAccess> {
  checkEngineAccess(settings, deps.kind);
  const files = await TlsFiles.open({
    cert: pemFile('SYNC_POLICY_STORE_TLS_CLIENT_CERT', settings.engineTlsCert),
    key: pemFile('SYNC_POLICY_STORE_TLS_CLIENT_KEY', settings.engineTlsKey),
    ca: pemFile('SYNC_POLICY_STORE_TLS_CA', settings.engineTlsCa),
  });
  const auth = authBy(settings, deps);
  const stop = files.watch({ log: deps.log });
  return {
    auth,
    tls: outgoingTls(files, 'only'),
    close: async () => {
      stop();
      await auth.close();
    },
  };
}

function authBy(settings: EngineAccessSettings, deps: Parameters<typeof openEngineAccess>[1]): EngineAuth {
  const { engineOauthServer: server, engineOauthClientId: clientId, engineOauthClientSecret: clientSecret } = settings;
  if (settings.engineAuthType === 'token') return fixedAuth(settings.engineAuthToken);
  if (settings.engineAuthType !== 'oauth') return fixedAuth();
  if (server === undefined || clientId === undefined || clientSecret === undefined) {
    throw new Error('checkEngineAccess lets no oauth without these pass');
  }
  const dispatcher = createDispatcher(OAUTH_TIMEOUT_MS, deps.env, { tls: deps.outgoing });
  return new Oauth({ server, clientId, clientSecret, timeoutMs: OAUTH_TIMEOUT_MS }, { log: deps.log, dispatcher });
}
