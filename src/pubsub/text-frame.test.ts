import assert from 'node:assert/strict';
import type { Writable } from 'node:stream';
import { it } from 'node:test';
import fc from 'fast-check';
import * as ws from 'ws';
import { textFrame } from './text-frame.js';

/** Its types leave it out. */
const { Receiver } = ws as unknown as { Receiver: new (options: { isServer: boolean }) => Writable };

/** What a WebSocket client reads of these bytes. */
function read(...chunks: Buffer[]): string[] {
  const found: string[] = [];
  const receiver = new Receiver({ isServer: false });
  receiver.on('message', (data: Buffer, isBinary: boolean) => found.push(`${isBinary} ${data}`));
  receiver.on('conclude', () => found.push('closed'));
  for (const chunk of chunks) receiver.write(chunk);
  return found;
}

it('is read as the same text, whatever its length', () => {
  for (const length of [0, 1, 125, 126, 127, 65_535, 65_536, 200_000]) {
    const text = 'x'.repeat(length);
    const { bytes, payload } = textFrame(text);
    assert.deepEqual(read(bytes, textFrame('next').bytes), [`false ${text}`, 'false next'], `${length}`);
    assert.equal(payload.toString(), text);
  }
});

it('property: any text is read as it was written', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 300 }), (text) => {
      assert.deepEqual(read(textFrame(text).bytes), [`false ${text}`]);
    }),
  );
});
