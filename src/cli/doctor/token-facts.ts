import { errorFinding, type Finding, okFinding, warningFinding } from '../findings.js';
import { isoTime } from '../status/text.js';
import { claimsOf } from '../token-claims.js';
import { SOON_DAYS } from './tls-check.js';

const TOKEN = { id: 'client_token', subject: 'token' };
const DAY_MS = 86_400_000;
const RENEW = 'Issue a new one with `policysync token --type client`, and set SYNC_CLIENT_TOKEN.';

/** Judges what the token of a client says of itself, for the topics that the client follows. */
export function tokenFindings(token: string, topics: readonly string[], nowMs = Date.now()): Finding[] {
  const { id, subject } = TOKEN;
  const claims = claimsOf(token);
  if (claims === undefined) {
    const message = 'SYNC_CLIENT_TOKEN is not a token (JWT); perhaps it is the master token';
    return [errorFinding(id, subject, message, RENEW)];
  }
  const { exp, peer_type: type, permitted_topics: permitted, permitted_paths: paths } = claims;
  const findings: Finding[] = [];
  if (typeof exp === 'number' && exp * 1000 <= nowMs) {
    return [errorFinding(id, subject, `it expired on ${moment(exp)}`, RENEW)];
  }
  if (typeof exp === 'number' && exp * 1000 - nowMs < SOON_DAYS * DAY_MS) {
    findings.push(warningFinding(id, subject, `it expires on ${moment(exp)}`, RENEW));
  }
  if (type !== 'client') {
    const message = `it is for a ${typeof type === 'string' ? type.slice(0, 40) : 'peer of no type'}, not for a client`;
    findings.push(warningFinding(id, subject, message, RENEW));
  }
  if (Array.isArray(permitted)) {
    const missing = topics.filter((topic) => !permitted.includes(topic));
    if (missing.length > 0) {
      const remedy = 'Issue a token whose topics include them, or correct SYNC_DATA_TOPICS.';
      findings.push(
        errorFinding(id, subject, `it does not permit the topics ${missing.slice(0, 10).join(', ')}`, remedy),
      );
    }
  }
  if (findings.length > 0) return findings;
  const of = Array.isArray(permitted) ? `topics ${permitted.slice(0, 10).join(', ') || 'none'}` : 'all topics';
  const at = Array.isArray(paths) ? `, paths ${paths.slice(0, 10).join(', ') || 'none'}` : '';
  const until = typeof exp === 'number' ? `until ${moment(exp)}` : 'without an end';
  return [okFinding(id, subject, `type client, ${of}${at}, ${until}`)];
}

function moment(seconds: number): string {
  return `${isoTime(seconds * 1000)
    .replace('T', ' ')
    .replace(/:[^:]*$/, '')} UTC`;
}
