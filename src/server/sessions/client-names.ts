import { createHash } from 'node:crypto';
import type { KnownClient } from './known-client.js';

/** The subject that a client id belongs to; undefined: to nobody. */
export type OwnerOf = (clientId: string) => string | undefined;

/** Digits of a derived name that somebody else calls itself by. */
const ALL_DIGITS = 64;

/**
 * The name under which a client is listed: its id, unless that belongs to another subject, or this is the older of two connections
 * of one client that both live.
 */
export function nameOf(client: KnownClient, ownerOf: OwnerOf): string {
  const owner = ownerOf(client.clientId);
  const isOwn = client.twin === undefined && (owner === undefined || owner === client.subject);
  return isOwn ? client.clientId : derivedName(client);
}

/** A name for each of these clients, no two the same: those that say what they hold come first, then who used its id first. */
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

/** Hex digits that follow the id in a derived name. */
const DERIVED_DIGITS = 8;

/** The name under which a client is listed whose id belongs to another one: the id, and what its key amounts to. */
export function derivedName({ clientId, key }: { clientId: string; key: string }, digits = DERIVED_DIGITS): string {
  return `${clientId}~${createHash('sha256').update(key).digest('hex').slice(0, digits)}`;
}
