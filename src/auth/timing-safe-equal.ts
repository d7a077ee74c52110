import { createHash, timingSafeEqual } from 'node:crypto';
import type { Secret } from '../lib/observe/log.js';

/**
 * Compares a text from outside with a secret in constant time, whatever the lengths: both are
 * hashed first.
 */
export function equalsSecret(text: string, secret: Secret): boolean {
  return timingSafeEqual(sha256(text), sha256(secret.reveal()));
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
