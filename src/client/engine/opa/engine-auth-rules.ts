import { SyncError } from '../../../lib/errors.js';
import type { ClientSettings, EngineAuthSettings } from '../../options.js';
import type { EngineKind } from '../engine-kind.js';

/** The settings that the rules check. */
export type EngineAccessSettings = EngineAuthSettings &
  Pick<ClientSettings, 'engineTlsCert' | 'engineTlsKey' | 'engineTlsCa' | 'inlineEngineConfig'>;

/** A setting with its name. */
type Named = readonly [name: string, value: unknown];

/**
 * Throws `config_invalid`, with all reasons at once, if access to the engine cannot work: settings
 * that the kind of authentication needs are missing (OPAL does not start without them either,
 * opal-protocol P6.2), or the inline engine would deny us access.
 */
export function checkEngineAccess(settings: EngineAccessSettings, kind: EngineKind): void {
  const problems = [...authProblems(settings), ...(kind === 'inline' ? inlineProblems(settings) : [])];
  if (problems.length > 0) {
    throw new SyncError(
      'config_invalid',
      `the engine cannot be reached with these settings:\n  ${problems.join('\n  ')}`,
    );
  }
}

function authProblems(settings: EngineAccessSettings): string[] {
  const url: Named = ['SYNC_POLICY_STORE_URL', settings.engineUrl];
  const isHttps = settings.engineUrl.startsWith('https:');
  switch (settings.engineAuthType) {
    case 'none':
      return [];
    case 'token':
      return missing('token', [['SYNC_POLICY_STORE_AUTH_TOKEN', settings.engineAuthToken]]);
    case 'oauth': {
      const server: Named = ['SYNC_POLICY_STORE_AUTH_OAUTH_SERVER', settings.engineOauthServer];
      const isHttp = settings.engineOauthServer?.startsWith('http') ?? true;
      return [
        ...missing('oauth', [
          server,
          ['SYNC_POLICY_STORE_AUTH_OAUTH_CLIENT_ID', settings.engineOauthClientId],
          ['SYNC_POLICY_STORE_AUTH_OAUTH_CLIENT_SECRET', settings.engineOauthClientSecret],
        ]),
        ...(isHttp ? [] : [`${server[0]} must start with https:// or http://`]),
      ];
    }
    case 'tls':
      return [
        ...missing('tls', [
          ['SYNC_POLICY_STORE_TLS_CLIENT_CERT', settings.engineTlsCert],
          ['SYNC_POLICY_STORE_TLS_CLIENT_KEY', settings.engineTlsKey],
          ['SYNC_POLICY_STORE_TLS_CA', settings.engineTlsCa],
        ]),
        ...(isHttps ? [] : [`${url[0]} must start with https:// for SYNC_POLICY_STORE_AUTH_TYPE tls`]),
      ];
  }
}

function missing(type: string, required: readonly Named[]): string[] {
  const names = required.filter(([, value]) => value === undefined).map(([name]) => name);
  return names.length === 0 ? [] : [`SYNC_POLICY_STORE_AUTH_TYPE ${type} needs ${names.join(', ')}`];
}

/**
 * Returns the conflicts between SYNC_INLINE_ENGINE_CONFIG and the settings for access to the
 * engine.
 */
function inlineProblems({ engineUrl, engineTlsCert, inlineEngineConfig = {} }: EngineAccessSettings): string[] {
  const { authentication, authorization, files, config_file } = inlineEngineConfig;
  const hasCert = inlineEngineConfig.tls_cert_file !== undefined;
  const problems: string[] = [];
  if (hasCert !== (inlineEngineConfig.tls_private_key_file !== undefined)) {
    problems.push('SYNC_INLINE_ENGINE_CONFIG needs both of tls_cert_file and tls_private_key_file, or none');
  }
  if (hasCert && !engineUrl.startsWith('https:')) {
    problems.push('SYNC_INLINE_ENGINE_CONFIG has tls_cert_file, so SYNC_POLICY_STORE_URL must start with https://');
  }
  if (!hasCert && engineUrl.startsWith('https:')) {
    problems.push('SYNC_POLICY_STORE_URL is https, so SYNC_INLINE_ENGINE_CONFIG needs tls_cert_file and its key');
  }
  if (authentication === 'tls') {
    if (!hasCert || inlineEngineConfig.tls_ca_cert_file === undefined) {
      problems.push(
        'authentication tls of SYNC_INLINE_ENGINE_CONFIG needs tls_cert_file, its key and tls_ca_cert_file',
      );
    }
    if (engineTlsCert === undefined) {
      problems.push(
        'authentication tls of SYNC_INLINE_ENGINE_CONFIG asks us for a certificate: set SYNC_POLICY_STORE_AUTH_TYPE tls',
      );
    }
  }
  // Without a policy OPA denies everything, including the writes that would bring one.
  if (authorization === 'basic' && (files ?? []).length === 0 && config_file === undefined) {
    problems.push(
      'authorization basic of SYNC_INLINE_ENGINE_CONFIG needs a policy for package system.authz from the start: name its file in files',
    );
  }
  return problems;
}
