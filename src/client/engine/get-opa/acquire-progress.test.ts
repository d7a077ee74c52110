import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AcquireProgress, progressPrinter } from './acquire-progress.js';

function printed(isTTY: boolean, events: AcquireProgress[], columns = 80): string {
  let text = '';
  const print = progressPrinter({
    isTTY,
    columns,
    write: (part) => {
      text += part;
    },
  });
  for (const event of events) print(event);
  return text;
}

const url = 'https://example.test/opa';
const part = (receivedBytes: number, elapsedMs: number): AcquireProgress => ({
  phase: 'download',
  url,
  receivedBytes,
  totalBytes: 60_000_000,
  elapsedMs,
});

test('off a terminal it prints the first state, then a line every ten seconds, then the whole', () => {
  const lines = printed(false, [part(0, 0), part(15_000_000, 900), part(30_000_000, 10_100), part(60_000_000, 10_900)]);
  assert.deepEqual(lines.trim().split('\n'), [
    'opa: downloading [------------------------] 0% of 60.0 MB 0 s',
    'opa: downloading [############------------] 50% of 60.0 MB 10 s',
    'opa: downloading [########################] 100% of 60.0 MB 11 s',
  ]);
});

test('on a terminal one line is redrawn in place and the next message stands on its own line', () => {
  const text = printed(true, [
    part(0, 0),
    part(30_000_000, 200),
    { phase: 'found', way: 'download', path: '/c/opa', version: '1.22.0' },
  ]);
  assert.equal(text.split('\n').length, 2);
  assert.ok(text.endsWith('\r\u001b[Kopa: using /c/opa (version 1.22.0)\n'));
  assert.equal(text.split('\r\u001b[K').length, 4);
});

test('on a terminal a line never reaches the last column', () => {
  const text = printed(true, [part(30_000_000, 0)], 40);
  assert.equal(text.replace('\r\u001b[K', '').length, 39);
});

test('a failed way is named with the next remedy', () => {
  assert.equal(
    printed(false, [{ phase: 'failed', way: 'path', message: 'there is no "opa" on PATH', next: 'the cache folder' }]),
    'opa: there is no "opa" on PATH; next: the cache folder\n',
  );
});
