import { causesOf, type ErrorCode, errorText, SyncError } from '../errors.js';

/** What Node calls the failures of a certificate, and what they mean for people. */
const TLS_PROBLEMS: Readonly<Record<string, 'untrusted' | 'expired' | 'name'>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: 'untrusted',
  SELF_SIGNED_CERT_IN_CHAIN: 'untrusted',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'untrusted',
  UNABLE_TO_GET_ISSUER_CERT: 'untrusted',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'untrusted',
  CERT_UNTRUSTED: 'untrusted',
  CERT_SIGNATURE_FAILURE: 'untrusted',
  CERT_HAS_EXPIRED: 'expired',
  CERT_NOT_YET_VALID: 'expired',
  ERR_TLS_CERT_ALTNAME_INVALID: 'name',
  HOSTNAME_MISMATCH: 'name',
};

/** The code of an error of `plainFailure` (tls-probe.ts). */
export const PLAIN_TO_TLS = 'PLAIN_TO_TLS';

/** What names the authorities of the sync server, and of everything else that a client reads. */
export const SERVER_CA =
  'SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE with SYNC_CLIENT_SELF_SIGNED_CERTIFICATES_ALLOWED=true';

/** How a failed connection is reported. */
export interface ConnectFailureOptions {
  /** What did not work, with whom: `no answer from https://...`. */
  readonly message: string;
  /** Where it is not TLS that failed. */
  readonly code: ErrorCode;
  /** The setting that names the authority of that certificate. */
  readonly caSetting: string;
  readonly retryable?: boolean;
}

/**
 * The error of a connection that failed: `tls_mismatch` if only one side speaks TLS, `tls_failed`,
 * which names the setting, if TLS or a certificate is the cause otherwise.
 */
export function connectFailure(cause: unknown, options: ConnectFailureOptions): SyncError {
  const { message, code, caSetting, retryable = false } = options;
  const advice = tlsAdvice(cause, caSetting);
  if (advice === undefined) return new SyncError(code, message, { cause, retryable });
  return new SyncError(isMismatch(cause) ? 'tls_mismatch' : 'tls_failed', `${message}: ${advice}`, {
    cause,
    retryable,
  });
}

/**
 * What is wrong with TLS, for people, with the setting that corrects it; undefined if something
 * else failed.
 */
export function tlsAdvice(cause: unknown, caSetting: string): string | undefined {
  const problem = tlsProblem(cause);
  if (problem === undefined) return undefined;
  return {
    untrusted: `its certificate is not of a trusted authority (name that in ${caSetting})`,
    expired: 'its certificate is not valid at this time',
    name: 'its certificate is for another name',
    'no tls': 'it does not speak TLS there (http:// may be meant)',
    alert: 'it refuses TLS with us (it may ask for a certificate of ours)',
    'plain to tls': 'it speaks TLS there (use https://)',
  }[problem];
}

/** {@link errorText}, with {@link tlsAdvice} where TLS failed. */
export function connectText(cause: unknown, caSetting: string): string {
  const advice = tlsAdvice(cause, caSetting);
  return advice === undefined ? errorText(cause) : `${errorText(cause)}: ${advice}`;
}

/** Whether a handshake failed with a peer that speaks TLS. */
export function isTlsRefusal(error: unknown): boolean {
  const problem = tlsProblem(error);
  return problem !== undefined && problem !== 'no tls';
}

function isMismatch(error: unknown): boolean {
  const problem = tlsProblem(error);
  return problem === 'no tls' || problem === 'plain to tls';
}

type TlsProblem = 'untrusted' | 'expired' | 'name' | 'no tls' | 'alert' | 'plain to tls';

function tlsProblem(error: unknown): TlsProblem | undefined {
  for (const at of causesOf(error)) {
    const code = 'code' in at && typeof at.code === 'string' ? at.code : '';
    if (code === PLAIN_TO_TLS) return 'plain to tls';
    const known = TLS_PROBLEMS[code];
    if (known !== undefined) return known;
    if (code === 'ERR_SSL_WRONG_VERSION_NUMBER' || code === 'ERR_SSL_PACKET_LENGTH_TOO_LONG') return 'no tls';
    if (/^ERR_SSL_|^EPROTO$/.test(code) || / TLS alert "/.test(at.message)) return 'alert';
    // All addresses of a name failed.
    if (at instanceof AggregateError) {
      for (const one of at.errors) {
        const problem = tlsProblem(one);
        if (problem !== undefined) return problem;
      }
    }
  }
  return undefined;
}
