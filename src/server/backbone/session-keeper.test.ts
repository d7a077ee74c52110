import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { until } from '../../../test/support/until.js';
import { BACKBONE_TIMES, type SessionHooks, SessionKeeper } from './session-keeper.js';

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
      return {
        look: async () => ({ epoch: 'e', head: 0, rowMs: undefined }),
        renewEpoch: async () => undefined,
        prepare: async () => 'e',
        durability: async () => ({ level: 'durable' }),
        mail: async () => undefined,
        end: () => undefined,
      };
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
