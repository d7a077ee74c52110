import { hash } from 'node:crypto';
import type { Body } from '../../wire/json-node.js';

/** A body around a text in memory; nearly every document is one. `bytes`: the text in UTF-8, where the caller has it. */
export function bodyOfText(text: string, bytes: Uint8Array | string = text): Body & AsyncDisposable {
  const give = (): string => text;
  return {
    hash: hash('sha256', bytes, 'hex'),
    sizeBytes: Buffer.byteLength(bytes),
    text: give,
    stream: give,
    dispose: nothing,
    [Symbol.asyncDispose]: nothing,
  };
}

function nothing(): Promise<void> {
  return Promise.resolve();
}
