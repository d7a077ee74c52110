import { randomBytes } from 'node:crypto';

/** A new random id of 32 hex digits: the form of OPAL's ids. */
export function hexId(): string {
  // A UUID without its dashes would keep a tree of nine strings in memory with each connection.
  return randomBytes(16).toString('hex');
}
