import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { until } from '../../../test/support/until.js';
import { silentLogger } from '../../lib/observe/log.js';
import type { LevelChange } from '../../lib/observe/log-levels.js';
import { answer, MAX_ANSWER_BYTES } from '../../wire/client-ask.js';
import type { ClientDetails } from '../../wire/client-details.js';
import { AskedActions } from './asked-actions.js';

const DETAILS: ClientDetails = {
  version: '1',
  log_level: 'info',
  started_at: 1,
  orphaned: [],
  orphaned_total: 0,
  transactions: [],
  rego: null,
  drift: null,
};

function world({ mayAct = true, hasDrift = true, isProgram = true, isOff = false, details = DETAILS } = {}) {
  const did: string[] = [];
  const answers: { id: string; done: boolean; text: string; details?: ClientDetails | undefined }[] = [];
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const state = { checkedMs: 1, documents: 2, repaired: 0, error: undefined };
  const asked = new AskedActions(
    { mayAct, policyEnabled: !isOff, dataEnabled: !isOff },
    {
      policy: { recheck: () => void did.push('policy') },
      data: {
        refresh: async () => void did.push('data'),
        revalidate: (connected: boolean) => void did.push(`sources ${connected}`),
        prune: async () => {
          did.push('prune');
          await held;
          return [];
        },
      },
      drift: hasDrift
        ? {
            state,
            check: async () => {
              did.push('drift');
              return { ...state, repaired: 1 };
            },
          }
        : undefined,
      levels: isProgram ? { change: ({ level }: LevelChange) => void did.push(`level ${level}`) } : undefined,
      details: () => details,
      log: silentLogger(),
    },
  );
  const call = async (method: string, args: object): Promise<unknown> => {
    assert.equal(method, 'answer');
    assert(Buffer.byteLength(JSON.stringify(args)) <= MAX_ANSWER_BYTES);
    answers.push(answer.parse(args));
    return true;
  };
  const ask = async (args: object) => {
    const before = answers.length;
    asked.take(args, call);
    await until(() => answers.length > before, { withinMs: 5000, what: 'an answer' });
    return answers.at(-1);
  };
  return { asked, call, ask, answers, did, release };
}

describe('what a server asks a client', () => {
  it('is done, and told', async () => {
    const { ask, did, release, asked } = world();
    release();
    assert.deepEqual(asked.kinds, ['details', 'refresh', 'prune', 'drift_check', 'log_level']);
    assert.deepEqual((await ask({ id: '1', kind: 'details' }))?.details, { ...DETAILS, cannot: {} });
    assert.equal((await ask({ id: '2', kind: 'refresh' }))?.done, true);
    assert.equal((await ask({ id: '3', kind: 'prune' }))?.text, 'there was nothing to remove');
    assert.match((await ask({ id: '4', kind: 'drift_check' }))?.text ?? '', /compared 2 documents .* repaired 1$/);
    assert.equal((await ask({ id: '5', kind: 'log_level', level: 'debug' }))?.done, true);
    assert.deepEqual(did, ['policy', 'sources false', 'data', 'prune', 'drift', 'level debug']);
  });

  it('is nothing but these kinds, with levels that a log may have', async () => {
    const { asked, call, answers, did } = world();
    const wrong: unknown[] = [
      undefined,
      null,
      'refresh',
      {},
      { id: '1' },
      { id: '1', kind: 'stop' },
      { id: '1', kind: 'constructor' },
      { id: '1', kind: 'log_level' },
      { id: '1', kind: 'log_level', level: 'silent' },
      { id: '1', kind: 'log_level', level: '__proto__' },
      { kind: 'refresh' },
      { id: 'x'.repeat(65), kind: 'refresh' },
      { id: '', kind: 'refresh' },
    ];
    for (const args of wrong) asked.take(args, call);
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual([answers, did], [[], []]);
  });

  it('is refused where the operator of the client forbids it, and where it is off', async () => {
    const closed = world({ mayAct: false });
    assert.deepEqual(closed.asked.kinds, ['details']);
    for (const kind of ['refresh', 'prune', 'drift_check']) {
      assert.match((await closed.ask({ id: '1', kind }))?.text ?? '', /SYNC_CLIENT_REMOTE_ACTIONS is false/);
    }
    assert.deepEqual((await closed.ask({ id: '1', kind: 'details' }))?.details, { ...DETAILS, cannot: {} });
    assert.deepEqual(closed.did, []);
    const { ask } = world({ hasDrift: false });
    const answered = await ask({ id: '1', kind: 'drift_check' });
    assert.deepEqual([answered?.done, /set SYNC_DRIFT_CHECK_INTERVAL/.test(answered?.text ?? '')], [false, true]);
  });

  it('is told as what it cannot do, with the reason that an ask for it gets', async () => {
    const { ask, did } = world({ hasDrift: false, isProgram: false, isOff: true });
    const cannot = (await ask({ id: '1', kind: 'details' }))?.details?.cannot;
    assert.deepEqual(Object.keys(cannot ?? {}).sort(), ['drift_check', 'log_level', 'refresh']);
    for (const [kind, why] of Object.entries(cannot ?? {})) {
      const { done, text } = (await ask({ id: '2', kind, ...(kind === 'log_level' && { level: 'info' }) })) ?? {};
      assert.deepEqual([done, text], [false, why]);
    }
    assert.deepEqual(did, []);
  });

  it('is one of a kind at a time, and few in all, however often it is asked', async () => {
    const { asked, call, answers, did, release } = world();
    for (let index = 0; index < 1000; index++) asked.take({ id: String(index), kind: 'prune' }, call);
    await until(() => answers.length === 9, { withinMs: 5000, what: 'answers of those that are not done' });
    assert.deepEqual(
      [...new Set(answers.map(({ done, text }) => `${done} ${text}`))],
      ['false the same is under way already'],
    );
    release();
    await until(() => answers.length === 10, { withinMs: 5000, what: 'the answer of the one that is' });
    assert.deepEqual(did, ['prune']);
  });

  it('fits into an answer, however much there is to tell', async () => {
    const text = '€'.repeat(900);
    const { ask } = world({
      details: {
        ...DETAILS,
        orphaned: Array.from({ length: 50 }, () => ({ path: text, reason: 'r', since: null })),
        orphaned_total: 50,
        transactions: Array.from({ length: 20 }, () => ({
          ...{ kind: 'data' as const, id: 'i', seq: 1, outcome: 'applied', at: 1, took_ms: 1 },
          ...{ wrote: [text, text], wrote_total: 2, error: text },
        })),
      },
    });
    const answered = await ask({ id: '1', kind: 'details' });
    assert((answered?.details?.transactions.length ?? 0) > 0);
    assert.equal(answered?.details?.orphaned_total, 50);
  });
});
