import { createHash } from 'node:crypto';
import type { Body } from '../engine/engine.js';

/** A body around a text in memory (static data, inline data). */
export function bodyOfText(text: string): Body {
  return {
    hash: createHash('sha256').update(text).digest('hex'),
    sizeBytes: Buffer.byteLength(text),
    text: () => text,
    stream: () => text,
    dispose: () => Promise.resolve(),
  };
}
