import assert from 'node:assert/strict';
import { it } from 'node:test';
import { AwayClients } from './registry.js';

it('of clients that are away the oldest of the subject that has the most are forgotten, and whatever is too old', () => {
  const away = new AwayClients(5);
  const kept = new Set<string>();
  const leaves = (key: string, subject: string | null): void => {
    kept.add(key);
    away.add(key, subject);
    away.trim(
      (each) => each.startsWith('old'),
      (each) => kept.delete(each),
    );
  };
  for (const key of ['v1', 'v2']) leaves(key, 'victim');
  for (let count = 1; count <= 100; count++) leaves(`s${count}`, 'squatter');
  assert.deepEqual([...kept], ['v1', 'v2', 's98', 's99', 's100']);
  away.delete('v1'); // it is back
  leaves('v1', 'victim');
  leaves('s99', 'squatter'); // it was there for a moment
  leaves('s101', 'squatter');
  assert.deepEqual([...kept].sort(), ['s101', 's99', 'v1', 'v2', 's100'].sort());
  const many = new AwayClients(5);
  for (const key of ['old1', 'old2', 'new']) many.add(key, null);
  const gone: string[] = [];
  many.trim(
    (key) => key.startsWith('old'),
    (key) => gone.push(key),
  );
  assert.deepEqual(gone, ['old1', 'old2']);
});
