import { serverSecurity } from '../../../auth/security.js';
import { errorText } from '../../../lib/errors.js';
import { isLoopback } from '../../../lib/net/proxy.js';
import type { ServerOptions } from '../../../server/options.js';
import { errorFinding, type Finding, okFinding, warningFinding } from '../../kit/findings.js';
import type { Check } from './checks.js';

const KEYS = { id: 'keys', subject: 'keys' };
const MASTER = { id: 'master_token', subject: 'master token' };
/** Shorter secrets can be guessed. */
const MASTER_LENGTH = 16;
const PROBE_ID = '00000000000000000000000000000000';

/**
 * Whether both keys can be read, fit the algorithm and each other, and sign a token that they
 * verify.
 */
export function keyCheck(settings: ServerOptions): Check {
  return {
    ...KEYS,
    remedy: 'Check that the files of SYNC_AUTH_PRIVATE_KEY and SYNC_AUTH_PUBLIC_KEY can be read.',
    run: async () => [await pair(settings), ...masterToken(settings)],
  };
}

async function pair(settings: ServerOptions): Promise<Finding> {
  const { id, subject } = KEYS;
  try {
    const { issuer, authenticator, publishedKeys } = await serverSecurity(settings);
    if (issuer === undefined)
      return authenticationOff(id, subject, settings.host, 'SYNC_AUTH_PRIVATE_KEY and SYNC_AUTH_PUBLIC_KEY');
    const { token } = await issuer.issue({ id: PROBE_ID, type: 'client', ttlSeconds: 60, claims: {} });
    await authenticator.authenticate(`Bearer ${token}`);
    const kid = publishedKeys[0]?.kid.slice(0, 12);
    return okFinding(
      id,
      subject,
      `${settings.authAlgorithm}: the private key signs, the public key verifies (id ${kid})`,
    );
  } catch (error) {
    const remedy = 'Make a pair with `policysync keys`, and set both keys and SYNC_AUTH_JWT_ALGORITHM to match.';
    return errorFinding(id, subject, errorText(error), remedy);
  }
}

/** A listener without authentication: in order where only this machine reaches it. */
export function authenticationOff(id: string, subject: string, host: string, setting: string): Finding {
  if (isLoopback(host))
    return okFinding(id, subject, 'none: authentication is off, and only this machine reaches the API');
  const message = `none: authentication is off, and whoever reaches ${host} may do everything`;
  return warningFinding(
    id,
    subject,
    message,
    `Make keys with \`policysync keys\` and set ${setting}; see docs/how-to/secure.md.`,
  );
}

function masterToken({ authMasterToken: master, authPublicKey }: ServerOptions): Finding[] {
  const { id, subject } = MASTER;
  if (master === undefined) {
    if (authPublicKey === undefined) return [];
    const remedy = 'Set SYNC_AUTH_MASTER_TOKEN if tokens are to be issued by this server.';
    return [warningFinding(id, subject, 'none is set: POST /token issues no tokens', remedy)];
  }
  if (authPublicKey === undefined) {
    const remedy = 'Set SYNC_AUTH_PRIVATE_KEY and SYNC_AUTH_PUBLIC_KEY, or unset SYNC_AUTH_MASTER_TOKEN.';
    return [warningFinding(id, subject, 'it is set without keys: authentication is off all the same', remedy)];
  }
  if (master.reveal().length < MASTER_LENGTH) {
    const message = `it has fewer than ${MASTER_LENGTH} characters, and whoever guesses it can issue any token`;
    return [warningFinding(id, subject, message, 'Make one with `policysync keys --secret`.')];
  }
  return [okFinding(id, subject, 'set')];
}
