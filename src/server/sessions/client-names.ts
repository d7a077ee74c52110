import { createHash } from 'node:crypto';
import type { KnownClient } from './known-client.js';

/** Returns the subject that owns a client id; undefined: nobody does. */
export type OwnerOf = (clientId: string) => string | undefined;

/** Digits of a derived name that collides with an id. */
const ALL_DIGITS = 64;

/** The name under which a client is listed: its id, unless that belongs to another subject, or the client is a twin. */
export function nameOf(client: KnownClient, ownerOf: OwnerOf): string {
  const owner = ownerOf(client.clientId);
  const isOwn = client.twin === undefined && (owner === undefined || owner === client.subject);
  return isOwn ? client.clientId : derivedName(client);
}

/** Unique names of clients. Those with a session choose first, then those that used their id first. */
export function distinctNames(clients: readonly KnownClient[], ownerOf: OwnerOf): Map<string, KnownClient> {
  const named = new Map<string, KnownClient>();
  for (const client of clients.toSorted(byRight)) {
    let name = nameOf(client, ownerOf);
    if (named.has(name)) name = derivedName(client);
    if (named.has(name)) name = derivedName(client, ALL_DIGITS);
    named.set(name, client);
  }
  return named;
}

function byRight(a: KnownClient, b: KnownClient): number {
  if (a.kind !== b.kind) return a.kind === 'session' ? -1 : 1;
  if ((a.twin === undefined) !== (b.twin === undefined)) return a.twin === undefined ? -1 : 1;
  return a.claimedMs - b.claimedMs || (a.key < b.key ? -1 : 1);
}

const DERIVED_DIGITS = 8;

/** The name of a client whose id belongs to another one: the id and a hash of its key. */
export function derivedName({ clientId, key }: { clientId: string; key: string }, digits = DERIVED_DIGITS): string {
  return `${clientId}~${createHash('sha256').update(key).digest('hex').slice(0, digits)}`;
}
