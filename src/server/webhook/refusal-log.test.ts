import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../lib/errors.js';
import { createRefusalLog } from './refusal-log.js';

test('what is refused is logged with code and remedy, and never more than once a second', () => {
  const lines: { error?: string; code?: string; left_out?: number; remedy?: string }[] = [];
  let nowMs = 5_000;
  const refused = createRefusalLog({ warn: (fields: object) => void lines.push(fields) }, () => nowMs);
  const error = new SyncError('webhook_refused', 'No secret was provided!');
  for (let call = 0; call < 1_000; call++) refused(error);
  nowMs += 1_000;
  refused(error);
  assert.deepEqual(
    lines.map(({ error: text, code, left_out }) => [text, code, left_out]),
    [
      ['No secret was provided!', 'webhook_refused', undefined],
      ['No secret was provided!', 'webhook_refused', 999],
    ],
  );
  assert.match(lines[0]?.remedy ?? '', /SYNC_POLICY_REPO_WEBHOOK_SECRET/);
});
