import { createHash } from 'node:crypto';

/** What tells one client from every other. */
export interface ClientIdentity {
  readonly kind: 'session' | 'plain';
  /** Subject of its token; null where there is none. */
  readonly subject: string | null;
  /** What it calls itself. */
  readonly clientId: string;
  /** Its connection, where another one of the same subject and id is the client's; undefined: it is the client. */
  readonly twin?: string | undefined;
}

/**
 * The key by which a client is known. The subject is part of it: whoever uses an id that belongs to somebody else is another client,
 * and nothing that it says counts for the first one.
 */
export function clientKey({ kind, subject, clientId, twin }: ClientIdentity): string {
  return JSON.stringify([kind, subject, clientId, ...(twin === undefined ? [] : [twin])]);
}

/** Hex digits that follow the id in a derived name. */
const DERIVED_DIGITS = 8;

/** The name under which a client is listed whose id belongs to another one: the id, and what its key amounts to. */
export function derivedName({ clientId, key }: { clientId: string; key: string }, digits = DERIVED_DIGITS): string {
  return `${clientId}~${createHash('sha256').update(key).digest('hex').slice(0, digits)}`;
}
