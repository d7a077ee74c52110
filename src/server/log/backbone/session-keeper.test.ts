import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { pino } from 'pino';
import { until } from '../../../../test/support/until.js';
import { SyncError } from '../../../lib/errors.js';
import { silentLogger } from '../../../lib/observe/log.js';
import {
  BACKBONE_TIMES,
  type BackboneTimes,
  type Session,
  type SessionHooks,
  SessionKeeper,
} from './session-keeper.js';

/** A session in which everything works. */
function sound(): Session {
  return {
    look: async () => ({ epoch: 'e', head: 0, rowMs: undefined }),
    renewEpoch: async () => undefined,
    prepare: async () => 'e',
    durability: async () => ({ level: 'durable' }),
    mend: async () => undefined,
    mail: async () => undefined,
    end: () => undefined,
  };
}

test('a backbone that goes away is one line, without a stack, and another one when it is back', async () => {
  const lines: { level: number; msg: string; error?: string; code?: string; remedy?: string; err?: unknown }[] = [];
  const log = pino({ level: 'info' }, { write: (line) => void lines.push(JSON.parse(line)) });
  let hooks: SessionHooks | undefined;
  let isAway = false;
  let attempts = 0;
  const keeper = await SessionKeeper.open({
    what: 'Backbone at here:1',
    times: { ...BACKBONE_TIMES, lookMs: 10 },
    log,
    connect: async (given) => {
      attempts++;
      if (isAway) throw new Error('connect ECONNREFUSED');
      hooks = given;
      return sound();
    },
  });
  isAway = true;
  hooks?.lost(new Error('read ECONNRESET'));
  await until(() => attempts > 3, { withinMs: 20_000, what: 'several attempts' });
  assert.deepEqual(
    lines.map(({ level, msg, code }) => [level, msg, code]),
    [[50, 'the backbone is lost', 'backbone_unavailable']],
  );
  assert.match(`${lines[0]?.error} ${lines[0]?.remedy}`, /read ECONNRESET.*SYNC_BROADCAST_URI/);
  assert.doesNotMatch(JSON.stringify(lines), /\bat .*:\d+:\d+|stack/);
  isAway = false;
  await until(() => keeper.status.up, { withinMs: 20_000, what: 'the session' });
  assert.deepEqual(
    lines.slice(1).map(({ level, msg }) => [level, msg]),
    [[30, 'the backbone is back']],
  );
  await keeper.close();
});

describe('what the log does not depend on', () => {
  async function opened(session: Session, times: Partial<BackboneTimes> = {}): Promise<SessionKeeper<Session>> {
    return await SessionKeeper.open({
      what: 'Backbone at here:1',
      times: { ...BACKBONE_TIMES, ...times },
      log: silentLogger(),
      connect: async () => session,
    });
  }

  test('fails, or gives no answer, alone: the session stays, and calls of the log are answered', async () => {
    const keeper = await opened(sound(), { callMs: 20 });
    const { seen, stop } = lossesOf(keeper);
    const never = new Promise<never>(() => undefined);
    for (const work of [() => Promise.reject(new Error('no responders')), () => never]) {
      await assert.rejects(keeper.callAside(work), { code: 'presence_unavailable', message: /^Backbone at here:1: / });
      assert.deepEqual(await keeper.call((session) => session.look(0)), { epoch: 'e', head: 0, rowMs: undefined });
    }
    stop();
    assert.deepEqual([seen, keeper.status], [[], { up: true }]);
    await keeper.close();
  });

  test('fails with the backbone: that is what is said, and found out at once', async () => {
    const session = { ...sound(), ...{ isAway: false } };
    session.look = () => (session.isAway ? Promise.reject(new Error('closed')) : sound().look(0));
    const keeper = await opened(session);
    session.isAway = true;
    await assert.rejects(
      keeper.callAside(() => Promise.reject(new Error('closed'))),
      { code: 'backbone_unavailable' },
    );
    assert.equal(keeper.status.up, false);
    await keeper.close();
  });

  test('is looked after as long as the session lives, beside the checks, which do not wait for it', async () => {
    let mends = 0;
    let looks = 0;
    let isHung = false;
    const session: Session = {
      ...sound(),
      look: async () => {
        looks++;
        return { epoch: 'e', head: 0, rowMs: undefined };
      },
      mend: async () => {
        mends++;
        if (isHung) await new Promise<never>(() => undefined);
        throw new Error('it cannot be made');
      },
    };
    const keeper = await opened(session, { lookMs: 5 });
    const { seen, stop } = lossesOf(keeper);
    await until(() => mends > 3, { withinMs: 20_000, what: 'it is mended again and again' });
    isHung = true;
    const before = looks;
    await until(() => looks > before + 5, { withinMs: 20_000, what: 'the log is checked meanwhile' });
    stop();
    assert.deepEqual(seen, []);
    await keeper.close(); // although it hangs
  });

  test('tells that the log is gone, where it finds that out first', async () => {
    const gone = new SyncError('backbone_replaced', 'the update log was dropped');
    const session: Session = { ...sound(), mend: () => Promise.reject(gone) };
    const keeper = await opened(session, { lookMs: 3_600_000 });
    await assert.rejects(keeper.failed, (error) => error === gone);
    await keeper.close();
  });

  function lossesOf(keeper: SessionKeeper<Session>): { seen: unknown[]; stop: () => void } {
    const seen: unknown[] = [];
    const stop = keeper.watch(() => {
      if (!keeper.status.up) seen.push(keeper.status);
    });
    return { seen, stop };
  }
});
