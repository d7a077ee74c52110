import { SyncError } from '../../../lib/errors.js';
import { redactUrl, Secret } from '../../../lib/observe/log.js';
import { withoutEnd } from '../../../lib/run/without-end.js';
import { canonicalPath, type SigV4Credentials } from './sigv4.js';

/** The file on a bundle server (specification "Bundle server"). */
const BUNDLE_NAME = 'bundle.tar.gz';

/** Settings of a bundle server. */
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

/** The location of a bundle and its authentication. */
export interface BundleLocation {
  /** URL of the archive without credentials; its query may be secret. */
  url: URL;
  /** The same without the query, for logs and as the name of the source. */
  display: string;
  auth: BundleServerAuth;
}

/**
 * Returns the location of the bundle: `bundle.tar.gz` below the base URL, whose query is kept.
 * Credentials are a bearer token, S3 keys, or user and password in the URL. Throws `config_invalid`
 * for inconsistent settings.
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
  url.pathname = `${withoutEnd(url.pathname, '/')}/${BUNDLE_NAME}`;
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
  return token === undefined ? { kind: 'none' } : { kind: 'header', value: new Secret(`Bearer ${token.reveal()}`) };
}

/** User and password of a URL as an `Authorization` value. */
function userInfoOf(url: URL): Secret | undefined {
  if (url.username === '' && url.password === '') return undefined;
  try {
    const pair = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
    return new Secret(`Basic ${Buffer.from(pair).toString('base64')}`);
  } catch {
    throw invalid('SYNC_POLICY_BUNDLE_URL has a % in its user or password that is no escape'); // its text is secret
  }
}

/** Throws if the path would not be sent exactly as it is signed. */
function checkSignable(url: URL): void {
  let path: string | undefined;
  try {
    const signed = new URL(url);
    path = canonicalPath(url);
    signed.pathname = path;
    if (signed.pathname === path) return;
  } catch {
    // an invalid % escape: reported below
  }
  throw invalid('SYNC_POLICY_BUNDLE_URL has a path that cannot be signed: a % that is no escape, or an escaped ..');
}

function invalid(message: string): SyncError {
  return new SyncError('config_invalid', message);
}
