import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../lib/errors.js';
import { evaluateAll } from './evaluate.js';
import { type Evaluation, type EvaluationItem, readEvaluation, type Semantic } from './request.js';

/** An evaluation that the stub below answers by the name of its action. */
function item(name: string): Evaluation {
  const text = `{"subject":{"type":"u","id":"u"},"action":{"name":"${name}"},"resource":{"type":"r","id":"r"}}`;
  return readEvaluation(Buffer.from(text));
}

const [YES, NO] = [item('yes'), item('no')];
const BROKEN: EvaluationItem = { problem: 'resource: is missing' };

async function decisions(semantic: Semantic, items: readonly EvaluationItem[]): Promise<unknown> {
  const asked: string[] = [];
  const results = await evaluateAll({ semantic, items }, async ({ action }) => {
    asked.push(action.kind);
    if (action.kind === 'fails') throw new SyncError('decision_result_invalid', 'it is a number');
    if (action.kind === 'nothing') throw new SyncError('engine_unreachable', 'no answer');
    return { decision: action.kind === 'yes' };
  });
  return { asked: asked.join(' '), decisions: results.map(({ decision }) => decision) };
}

test('the three semantics: what is asked, and what is answered', async () => {
  const cases: readonly [Semantic, readonly EvaluationItem[], string, readonly boolean[]][] = [
    ['execute_all', [YES, NO, YES], 'yes no yes', [true, false, true]],
    ['execute_all', [YES, BROKEN, YES], 'yes yes', [true, false, true]],
    ['execute_all', [item('fails'), YES], 'fails yes', [false, true]],
    ['deny_on_first_deny', [YES, YES], 'yes yes', [true, true]],
    ['deny_on_first_deny', [YES, NO, YES], 'yes no', [true, false]],
    ['deny_on_first_deny', [BROKEN, YES], '', [false]],
    ['deny_on_first_deny', [YES, item('fails'), YES], 'yes fails', [true, false]],
    ['permit_on_first_permit', [NO, YES, NO], 'no yes', [false, true]],
    ['permit_on_first_permit', [YES, YES], 'yes', [true]],
    ['permit_on_first_permit', [NO, BROKEN, item('fails'), NO], 'no fails no', [false, false, false, false]],
  ];
  for (const [semantic, items, asked, expected] of cases) {
    assert.deepEqual(await decisions(semantic, items), { asked, decisions: expected }, `${semantic} ${asked}`);
  }
});

test('many are asked some at a time and answered in order', async () => {
  const items = Array.from({ length: 100 }, (_, index) => (index % 3 === 0 ? YES : NO));
  let [now, most] = [0, 0];
  const results = await evaluateAll({ semantic: 'execute_all', items }, async ({ action }) => {
    most = Math.max(most, ++now);
    await new Promise((resolve) => setImmediate(resolve));
    now--;
    return { decision: action.kind === 'yes' };
  });
  assert.deepEqual(
    results.map(({ decision }) => decision),
    items.map((one) => one === YES),
  );
  assert(most > 1 && most <= 16, `${most} at a time`);
});

test('an evaluation with an error says it, with a status', async () => {
  const fails = async (): Promise<never> => Promise.reject(new SyncError('decision_result_invalid', 'it is a number'));
  assert.deepEqual(await evaluateAll({ semantic: 'execute_all', items: [BROKEN, YES] }, fails), [
    { decision: false, context: { error: { status: 400, message: 'resource: is missing' } } },
    { decision: false, context: { error: { status: 500, message: 'it is a number' } } },
  ]);
});

test('where the engine gives no answer, nothing is answered: that is no denial', async () => {
  for (const semantic of ['execute_all', 'deny_on_first_deny', 'permit_on_first_permit'] as const) {
    await assert.rejects(decisions(semantic, [NO, item('nothing')].slice(semantic === 'deny_on_first_deny' ? 1 : 0)), {
      code: 'engine_unreachable',
    });
  }
});

test('a caller that is gone is answered no further', async () => {
  const gone = new AbortController();
  let asked = 0;
  const items = Array.from({ length: 100 }, () => YES);
  const one = async (): Promise<{ decision: boolean }> => {
    asked++;
    gone.abort();
    return { decision: true };
  };
  await evaluateAll({ semantic: 'deny_on_first_deny', items }, one, gone.signal);
  assert.equal(asked, 1);
});
