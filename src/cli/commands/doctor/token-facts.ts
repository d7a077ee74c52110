import { errorFinding, type Finding, okFinding, warningFinding } from '../../kit/findings.js';
import { isoTime } from '../../kit/text.js';
import { claimsOf } from '../../kit/token-claims.js';
import { SOON_DAYS } from './tls-check.js';

const TOKEN = { id: 'client_token', subject: 'token' };
const DAY_MS = 86_400_000;
const RENEW = 'Issue a new one with `policysync token --type client`, and set SYNC_CLIENT_TOKEN.';

type Claims = NonNullable<ReturnType<typeof claimsOf>>;

/** Judges what the token of a client says of itself, for the topics that the client follows. */
export function tokenFindings(token: string, topics: readonly string[], nowMs = Date.now()): Finding[] {
  const { id, subject } = TOKEN;
  const claims = claimsOf(token);
  if (claims === undefined) {
    const message = 'SYNC_CLIENT_TOKEN is not a token (JWT); perhaps it is the master token';
    return [errorFinding(id, subject, message, RENEW)];
  }
  const { exp, peer_type: type, permitted_topics: permitted } = claims;
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
  const facts = factsOf(claims);
  if (findings.length === 0) return [okFinding(id, subject, facts)];
  return findings.map((finding) => ({ ...finding, message: `${finding.message} (${facts})` }));
}

/** Type, topics, paths and end. */
function factsOf({ exp, peer_type: type, permitted_topics: topics, permitted_paths: paths }: Claims): string {
  const listed = (words: readonly unknown[]): string => words.slice(0, 10).join(', ') || 'none';
  return [
    typeof type === 'string' ? `type ${type.slice(0, 40)}` : 'no type',
    Array.isArray(topics) ? `topics ${listed(topics)}` : 'all topics',
    ...(Array.isArray(paths) ? [`paths ${listed(paths)}`] : []),
    typeof exp === 'number' ? `until ${moment(exp)}` : 'without an end',
  ].join(', ');
}

function moment(seconds: number): string {
  return `${isoTime(seconds * 1000)
    .replace('T', ' ')
    .replace(/:[^:]*$/, '')} UTC`;
}
