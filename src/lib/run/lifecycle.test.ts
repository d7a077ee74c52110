import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '../observe/log.js';
import { aborted } from './async.js';
import { createProgram, type Parts } from './lifecycle.js';

function program<T>(compose: (parts: Parts) => Promise<T>): ReturnType<typeof createProgram<T>> {
  return createProgram('server', compose, silentLogger());
}

test('parts start in order and end in reverse order, each after the one before', async () => {
  const events: string[] = [];
  const { start, stop, ended } = program(async (parts) => {
    for (const name of ['a', 'b']) {
      events.push(`start ${name}`);
      parts.add(name, async (part) => {
        await new Promise((resolve) => setImmediate(resolve));
        events.push(`end ${part}`);
      });
    }
    parts.run(async (signal) => {
      await aborted(signal);
      events.push('run ends');
    });
    return 'address';
  });
  assert.equal(await start(), 'address');
  assert.equal(await start(), 'address');
  await Promise.all([stop(), stop()]);
  await ended();
  assert.deepEqual(events, ['start a', 'start b', 'run ends', 'end b', 'end a']);
});

test('a part that fails to end keeps none of the others from ending', async () => {
  const events: string[] = [];
  const { start, stop, ended } = program(async (parts) => {
    parts.add('a', (part) => events.push(part));
    parts.add('b', () => Promise.reject(new Error('stuck')));
    parts.add('c', () => {
      throw new Error('broken');
    });
  });
  await start();
  await assert.rejects(stop(), ({ errors }: AggregateError) => {
    assert.deepEqual(errors.map(String), ['Error: broken', 'Error: stuck']);
    return true;
  });
  assert.deepEqual(events, ['a']);
  await ended();
});

test('a start that fails ends what it has started', async () => {
  const events: string[] = [];
  const { start, stop } = program(async (parts) => {
    parts.add('a', (part) => events.push(part));
    parts.run((signal) => aborted(signal));
    throw new Error('no port');
  });
  await assert.rejects(start(), /no port/);
  assert.deepEqual(events, ['a']);
  await stop();
  assert.deepEqual(events, ['a']);
});

test('a stop during a start waits for its step and ends what it made', async () => {
  const events: string[] = [];
  const { start, stop } = program(async (parts) => {
    await aborted(parts.signal);
    parts.add('a', (part) => events.push(part));
    parts.run((signal) => aborted(signal));
  });
  const started = start();
  await stop();
  await started;
  assert.deepEqual(events, ['a']);
});

test('a start after a stop is refused', async () => {
  const { start, stop } = program(async () => assert.fail('it must not start'));
  await stop();
  await assert.rejects(start(), { code: 'already_stopped', message: 'this server was stopped' });
});

test('a start after a stop is refused, also where there was one before', async () => {
  const { start, stop } = program(async () => undefined);
  await start();
  await start();
  const stopping = stop();
  await assert.rejects(start(), { code: 'already_stopped' });
  await stopping;
  await assert.rejects(start(), { code: 'already_stopped' });
});

test('a part that runs and fails ends the program with its error', async () => {
  const { start, stop, ended } = program(async (parts) => {
    parts.run((signal) => aborted(signal));
    parts.run(() => Promise.reject(new Error('worn out')));
  });
  await start();
  await assert.rejects(ended(), /worn out/);
  await stop();
  await assert.rejects(ended(), /worn out/);
});

test('a part that ends with the reason of the stop has not failed', async () => {
  const { start, stop, ended } = program(async (parts) => {
    parts.run(async (signal) => {
      await aborted(signal);
      throw signal.reason;
    });
  });
  await start();
  await stop();
  await ended();
});
