import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '../../lib/log.js';
import type { DocPath } from '../../wire/doc-path.js';
import { LayerSet } from '../desired/layers.js';
import { bodyOfText } from '../desired/text-body.js';
import { DriftCheck } from './drift-check.js';

test('what somebody writes right after a repair is found by the next comparison', async () => {
  const layers = new LayerSet();
  const path: DocPath = ['a'];
  layers.set({
    id: 'one',
    path,
    rank: { era: 1, seq: 1, index: 0 },
    content: { kind: 'put', body: bodyOfText('1') },
  });
  const stop = new AbortController();
  let held = '1';
  let reads = 0;
  const rewrites: string[] = [];
  const check = new DriftCheck(
    { intervalMs: 1, recordDelayMs: 0 },
    {
      engine: {
        reserved: [],
        read: async () => {
          reads++;
          // The first one records what the client has written; then somebody else comes.
          const found = held;
          if (reads === 1) held = 'foreign';
          return found;
        },
      },
      applier: {
        layers,
        policy: undefined,
        watch: () => undefined,
        tidy: async () => [],
        rewrite: async () => {
          rewrites.push(held);
          // Comes again, before anybody can look.
          held = rewrites.length === 1 ? 'foreign again' : '1';
          if (rewrites.length === 2) stop.abort();
        },
      },
      exclusive: (step) => step(stop.signal),
      log: silentLogger(),
    },
  );
  const limit = setTimeout(() => stop.abort(), 5000);
  await check.run(stop.signal);
  clearTimeout(limit);
  assert.deepEqual(rewrites, ['foreign', 'foreign again']);
});
