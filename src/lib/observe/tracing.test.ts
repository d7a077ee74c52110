import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inSpan, openTracing, validTraceparent } from './tracing.js';

const PARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

test('without an SDK there is no tracing, and work runs with the parent it was given', async () => {
  const tracing = await openTracing('1');
  assert.equal(tracing, undefined);
  assert.equal(await inSpan(tracing, 'x', { parent: PARENT }, async (parent) => parent), PARENT);
});

test('a traceparent that W3C does not know is ignored', () => {
  assert.equal(validTraceparent(PARENT), PARENT);
  assert.equal(validTraceparent(`${PARENT.replace(/^00/, 'cc')}-what-comes-later`), PARENT, 'a later version');
  for (const wrong of [
    undefined,
    7,
    '',
    PARENT.toUpperCase(),
    PARENT.slice(1),
    PARENT.replace(/^00/, 'ff'),
    PARENT.replace('4bf92f3577b34da6a3ce929d0e0e4736', '0'.repeat(32)),
    PARENT.replace('00f067aa0ba902b7', '0'.repeat(16)),
    `${PARENT}x`,
    `${PARENT}-${'a'.repeat(600)}`,
    [PARENT],
  ])
    assert.equal(validTraceparent(wrong), undefined, String(wrong));
});
