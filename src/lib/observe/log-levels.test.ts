import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import { LOG_LEVELS, LogLevels } from './log-levels.js';

/** The levels of a program with three components. */
function levelsOf(start: (typeof LOG_LEVELS)[number] = 'info'): LogLevels {
  const levels = new LogLevels(start);
  for (const name of ['', 'policy', 'data', 'http']) levels.cell(name);
  return levels;
}

describe('the levels of a log', () => {
  it('are those of the start, and components are listed in order', () => {
    const levels = levelsOf('warn');
    const components = { data: 'warn', http: 'warn', policy: 'warn' };
    assert.deepEqual(levels.view(), { level: 'warn', components, temporary: [] });
    assert.deepEqual(levels.components, ['data', 'http', 'policy']);
    assert.deepEqual(
      LOG_LEVELS.map((level) => new LogLevels(level).cell('x').threshold),
      [0, 1, 2, 3, 4],
    );
  });

  it('change for all but those that have a level of their own, at once and for loggers that are there', () => {
    const levels = levelsOf();
    const [policy, data] = [levels.cell('policy'), levels.cell('data')];
    levels.change({ component: 'policy', level: 'debug' });
    assert.deepEqual([policy.threshold, data.threshold], [0, 1]);
    levels.change({ level: 'error' });
    assert.deepEqual([policy.threshold, data.threshold, levels.cell('late').threshold], [0, 3, 3]);
    levels.change({ component: 'policy', level: 'default' });
    assert.deepEqual([policy.threshold, levels.view().level], [3, 'error']);
    levels.change({ component: 'data', level: 'debug' });
    levels.change({ level: 'default' });
    assert.equal(levels.view().level, 'info');
    assert.deepEqual([policy.threshold, data.threshold], [1, 1]);
  });

  it('for some time: then they are what they were before, and the last change counts', () => {
    mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 0 });
    try {
      const levels = levelsOf();
      const policy = levels.cell('policy');
      levels.change({ component: 'policy', level: 'warn' });
      levels.change({ component: 'policy', level: 'debug', forMs: 10_000 });
      levels.change({ level: 'error', forMs: 20_000 });
      assert.deepEqual(levels.view().temporary, [
        { component: null, level: 'error', until: '1970-01-01T00:00:20.000Z' },
        { component: 'policy', level: 'debug', until: '1970-01-01T00:00:10.000Z' },
      ]);
      mock.timers.tick(9_999);
      assert.equal(policy.threshold, 0);
      mock.timers.tick(1);
      assert.deepEqual([policy.threshold, levels.cell('data').threshold], [2, 3]);
      mock.timers.tick(10_000);
      assert.deepEqual([levels.cell('data').threshold, levels.view().temporary], [1, []]);

      levels.change({ level: 'debug', forMs: 1000 });
      levels.change({ level: 'warn' });
      mock.timers.tick(2000);
      assert.equal(levels.view().level, 'warn');
      levels.change({ level: 'debug', forMs: 1000 });
      levels.change({ level: 'default' });
      mock.timers.tick(2000);
      assert.deepEqual([levels.view().level, levels.view().temporary], ['info', []]);
    } finally {
      mock.timers.reset();
    }
  });

  it('toggle between debug and those of the start', () => {
    const levels = levelsOf('warn');
    levels.change({ component: 'http', level: 'error' });
    assert.deepEqual(
      [levels.toggleDebug(), levels.view().components],
      ['debug', { data: 'debug', http: 'error', policy: 'debug' }],
    );
    assert.equal(levels.toggleDebug(), 'warn');
    const loud = levelsOf('debug');
    assert.deepEqual([loud.toggleDebug(), loud.toggleDebug()], ['info', 'debug']);
  });
});
