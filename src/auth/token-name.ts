import { createHash } from 'node:crypto';
import { withoutControls } from '../lib/json/control-characters.js';

/** Longest name of the holder of a token. */
export const MAX_TOKEN_NAME = 64;

/** 32 hex digits, with the dashes of a UUID or without. */
const UUID = /^[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}$/i;

/** True for a UUID, dashed or not: the form of a token's subject. */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}

/**
 * True for a text that can name the holder of a token: short, on one line, printable, not padded,
 * and not to be taken for a UUID.
 */
export function isTokenName(text: string): boolean {
  const isSafe = !/\p{Surrogate}/u.test(text) && withoutControls(text) === text && text.trim() === text;
  return text !== '' && text.length <= MAX_TOKEN_NAME && isSafe && !isUuid(text);
}

/**
 * The subject of a token whose holder has a name: a UUID, since OPAL's peers accept no other
 * subject (opal-protocol P3.2), and the same for each token of that name. It is of version 8 (RFC
 * 9562), so it is never that of another token.
 */
export function subjectOfName(name: string): string {
  const bytes = createHash('sha256').update(`policysync token name\n${name}`).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString('hex');
}

/**
 * What the holder of a token is called: the claim `name` if the subject is made of it, otherwise
 * the subject. An issuer that lets people choose their `name` lets nobody take the place of
 * another.
 */
export function holderOf(subject: string, name: unknown): string {
  const isBound = typeof name === 'string' && isTokenName(name) && subjectOfName(name) === hexOf(subject);
  return isBound ? name : subject;
}

/** A UUID as 32 hex digits in lower case. */
export function hexOf(uuid: string): string {
  return uuid.replaceAll('-', '').toLowerCase();
}
