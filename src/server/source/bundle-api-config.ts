import { SyncError } from '../../lib/errors.js';
import { redactUrl, Secret } from '../../lib/log.js';
import { canonicalPath, type SigV4Credentials } from './sigv4.js';

/** What a bundle server serves (specification "Bundle server"). */
const BUNDLE_NAME = 'bundle.tar.gz';

/** Settings of a bundle server, as the operator gave them. */
export interface BundleServerSettings {
  /** SYNC_POLICY_BUNDLE_URL: the base. */
  policyBundleUrl?: string | undefined;
  policyBundleServerType: 'HTTP' | 'AWS-S3';
  policyBundleServerTokenId?: Secret | undefined;
  policyBundleServerToken?: Secret | undefined;
  policyBundleServerAwsRegion: string;
}

/** How requests to a bundle server authenticate. `header`: the value of `Authorization`. */
export type BundleServerAuth =
  | { kind: 'none' }
  | { kind: 'header'; value: Secret }
  | ({ kind: 's3' } & SigV4Credentials);

/** Where a bundle is and how to ask for it. */
export interface BundleLocation {
  /** Of the archive; without credentials, its query may be secret. */
  url: URL;
  /** The same without credentials and query, for logs and as the name of the source. */
  display: string;
  auth: BundleServerAuth;
}

/**
 * Where the bundle is: `bundle.tar.gz` below the base, whose query stays. Credentials are a bearer token, those of S3, or
 * user and password in the URL. Throws `config_invalid` for settings that do not fit together.
 */
export function bundleLocation(settings: BundleServerSettings): BundleLocation {
  const base = settings.policyBundleUrl;
  if (base === undefined) throw invalid('SYNC_POLICY_SOURCE_TYPE is API, so SYNC_POLICY_BUNDLE_URL must be set');
  if (!URL.canParse(base) || !/^https?:/i.test(base)) {
    throw invalid(`SYNC_POLICY_BUNDLE_URL ${redactUrl(base)} must start with http:// or https://`);
  }
  const url = new URL(base);
  const userInfo = userInfoOf(url);
  url.username = '';
  url.password = '';
  url.hash = '';
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/${BUNDLE_NAME}`;
  const display = `${url.origin}${url.pathname}`;
  return { url, display, auth: authOf(settings, userInfo, url) };
}

function authOf(settings: BundleServerSettings, userInfo: Secret | undefined, url: URL): BundleServerAuth {
  const { policyBundleServerTokenId: id, policyBundleServerToken: token } = settings;
  if (userInfo !== undefined && (token !== undefined || settings.policyBundleServerType === 'AWS-S3')) {
    throw invalid('SYNC_POLICY_BUNDLE_URL has a user, and SYNC_POLICY_BUNDLE_SERVER_TOKEN is set: give one of them');
  }
  if (settings.policyBundleServerType === 'AWS-S3') {
    if (id === undefined || token === undefined) {
      throw invalid(
        'SYNC_POLICY_BUNDLE_SERVER_TYPE is AWS-S3, so SYNC_POLICY_BUNDLE_SERVER_TOKEN_ID (the access key) and SYNC_POLICY_BUNDLE_SERVER_TOKEN (the secret key) must be set',
      );
    }
    checkSignable(url);
    const region = settings.policyBundleServerAwsRegion;
    return { kind: 's3', accessKeyId: id, secretAccessKey: token, region };
  }
  if (userInfo !== undefined) return { kind: 'header', value: userInfo };
  return token === undefined
    ? { kind: 'none' }
    : { kind: 'header', value: new Secret(`Bearer ${headerValue(token.reveal())}`) };
}

/** User and password of a URL as HTTP has them. */
function userInfoOf(url: URL): Secret | undefined {
  if (url.username === '' && url.password === '') return undefined;
  try {
    const pair = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
    return new Secret(`Basic ${Buffer.from(pair).toString('base64')}`);
  } catch {
    throw invalid('SYNC_POLICY_BUNDLE_URL has a % in its user or password that is no escape'); // its text is secret
  }
}

/** A path has to be sent exactly as it is signed. */
function checkSignable(url: URL): void {
  let path: string | undefined;
  try {
    const signed = new URL(url);
    path = canonicalPath(url);
    signed.pathname = path;
    if (signed.pathname === path) return;
  } catch {
    // a % that is no escape: said below
  }
  throw invalid('SYNC_POLICY_BUNDLE_URL has a path that cannot be signed: a % that is no escape, or an escaped ..');
}

function headerValue(token: string): string {
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw invalid('SYNC_POLICY_BUNDLE_SERVER_TOKEN has characters that no token has (blanks, line breaks)');
}

function invalid(message: string): SyncError {
  return new SyncError('config_invalid', message);
}
