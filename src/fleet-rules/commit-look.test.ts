import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commitLook } from './state-words.js';

test('a tick is only for a commit that a client is known to hold, or to have held', () => {
  const table: readonly [state: string, counts: Record<string, number> | undefined, kind: string, word: string][] = [
    ['head', { applied: 2, pending: 1 }, 'held', 'served'],
    ['head', { refused: 3 }, 'refused', '3 refuse it'],
    ['head', { applied: 2, refused: 1 }, 'refused', '1 refuse it'],
    ['head', { away: 3 }, 'open', 'served'],
    ['head', { unknown: 3 }, 'open', 'served'],
    ['head', undefined, 'open', 'served'],
    ['served', { applied: 1 }, 'held', ''],
    ['served', { refused: 3 }, 'refused', '3 refused it'],
    ['served', { replaced: 3 }, 'open', 'was served'],
    ['served', undefined, 'open', 'was served'],
    ['refused', undefined, 'refused', 'not served'],
    ['replaced', undefined, 'open', 'never served'],
    ['of_a_later_version', undefined, 'open', 'of a later version'],
  ];
  for (const [state, counts, kind, word] of table) {
    assert.deepEqual(
      commitLook({ state, counts, isMoving: false }),
      { kind, word },
      `${state} ${JSON.stringify(counts)}`,
    );
  }
  assert.equal(commitLook({ state: 'head', counts: { applied: 1 }, isMoving: true }).kind, 'under_way');
  assert.equal(commitLook({ state: 'head', counts: { refused: 1 }, isMoving: true }).kind, 'refused');
});
