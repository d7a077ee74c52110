import assert from 'node:assert/strict';
import { it } from 'node:test';
import { clockFinding } from './server-address-check.js';
import { expiryFinding } from './tls-check.js';

const NOW = Date.UTC(2026, 0, 1, 12);
const DAY_MS = 86_400_000;

/** The finding for a server whose clock is ahead by so many seconds, and that took 100 ms. */
function ahead(seconds: number): string {
  const date = new Date(NOW + seconds * 1000).toUTCString();
  const { level, message } = clockFinding(date, { sentMs: NOW, receivedMs: NOW + 100 });
  return `${level}: ${message}`;
}

it('the clock of a server may differ by 5 s, and fails above 60 s', () => {
  for (const seconds of [-5, 0, 5]) assert.match(ahead(seconds), /^ok: /);
  assert.equal(ahead(10), 'warning: the clock of the server is 10 s ahead of this one');
  assert.equal(ahead(-61), 'warning: the clock of the server is 60 s behind this one');
  assert.equal(ahead(-90), 'error: the clock of the server is 89 s behind this one');
  assert.equal(ahead(90), 'error: the clock of the server is 90 s ahead of this one');
  assert.equal(clockFinding(undefined, { sentMs: NOW, receivedMs: NOW }).level, 'warning');
});

it('the end of a certificate', () => {
  const level = (fromDays: number, untilDays: number): string =>
    expiryFinding(
      { id: 'x', subject: 'y' },
      { names: 'a.test', fromMs: NOW + fromDays * DAY_MS, untilMs: NOW + untilDays * DAY_MS },
      NOW,
    ).level;
  assert.deepEqual([level(-1, 30), level(-1, 13), level(-1, -1), level(1, 30)], ['ok', 'warning', 'error', 'error']);
});
