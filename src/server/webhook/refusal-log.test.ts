import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../lib/errors.js';
import { createRefusalLog } from './refusal-log.js';

test('what is refused is logged with code and remedy, thrown on, and never more than once a second', () => {
  const lines: { error?: string; code?: string; left_out?: number; remedy?: string }[] = [];
  let nowMs = 5_000;
  const logged = createRefusalLog({ warn: (fields: object) => void lines.push(fields) }, () => nowMs);
  const refuse = (): never => {
    throw new SyncError('webhook_refused', 'No secret was provided!');
  };
  assert.equal(
    logged(() => 7),
    7,
  );
  for (let call = 0; call < 1_000; call++) assert.throws(() => logged(refuse), { code: 'webhook_refused' });
  nowMs += 1_000;
  assert.throws(() => logged(refuse), { code: 'webhook_refused' });
  assert.deepEqual(
    lines.map(({ error, code, left_out }) => [error, code, left_out]),
    [
      ['No secret was provided!', 'webhook_refused', undefined],
      ['No secret was provided!', 'webhook_refused', 999],
    ],
  );
  assert.match(lines[0]?.remedy ?? '', /SYNC_POLICY_REPO_WEBHOOK_SECRET/);
  assert.throws(
    () =>
      logged(() => {
        throw new TypeError('ours');
      }),
    TypeError,
  );
  assert.equal(lines.length, 2, 'a mistake of ours is no refusal');
});
