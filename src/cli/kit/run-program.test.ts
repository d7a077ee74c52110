import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Command } from 'commander';
import { gatheredIo } from '../../../test/support/command-io.js';
import { ERROR_CODES, type ErrorCode, SyncError } from '../../lib/errors.js';
import { type ProgramLogger, silentLogger } from '../../lib/observe/log.js';
import { runCommandLine, runUntilSignal, UsageError } from './run-program.js';

function quietLog(): ProgramLogger {
  return Object.assign(silentLogger(), { flush: () => undefined });
}

test('a part that cannot go on is stopped, and its failure is the result', async () => {
  let stops = 0;
  const part = {
    start: async () => ({ url: 'http://x' }),
    stop: async () => {
      stops += 1;
    },
    ended: () => Promise.reject(new Error('worn out')),
  };
  await assert.rejects(runUntilSignal(part, quietLog()), /worn out/);
  assert.equal(stops, 1);
  assert.equal(process.listenerCount('SIGTERM'), 0);
});

test('SIGTERM drains before it stops, SIGINT stops at once', async () => {
  for (const [signal, expected] of [
    ['SIGTERM', ['drain', 'stop']],
    ['SIGINT', ['stop']],
  ] as const) {
    const calls: string[] = [];
    const part = {
      start: async () => ({ url: 'http://x' }),
      drain: async () => void calls.push('drain'),
      stop: async () => void calls.push('stop'),
      ended: () => new Promise<void>(() => undefined),
    };
    const running = runUntilSignal(part, quietLog());
    process.emit(signal, signal);
    await running;
    assert.deepEqual(calls, expected);
  }
});

test('a part that fails while it drains is stopped, and its failure is the result', async () => {
  let fail: (error: Error) => void = () => undefined;
  const failing = new Promise<void>((_, reject) => {
    fail = reject;
  });
  let stops = 0;
  const part = {
    start: async () => ({ url: 'http://x' }),
    drain: () => {
      fail(new Error('worn out'));
      return new Promise<void>(() => undefined);
    },
    stop: async () => {
      stops += 1;
    },
    ended: () => failing,
  };
  const running = runUntilSignal(part, quietLog());
  process.emit('SIGTERM', 'SIGTERM');
  await assert.rejects(running, /worn out/);
  assert.equal(stops, 1);
});

test('a start that fails is the result', async () => {
  const part = { start: () => Promise.reject(new Error('no port')), stop: async () => undefined };
  await assert.rejects(runUntilSignal(part, quietLog()), /no port/);
});

test('a failure is printed with what to do and its code', async () => {
  const end = async (error: unknown): Promise<string> => {
    const io = gatheredIo();
    const program = new Command('p').action(() => Promise.reject(error));
    await runCommandLine(program, [], io);
    return io.written.stderr;
  };
  for (const code of Object.keys(ERROR_CODES) as ErrorCode[]) {
    const text = await end(new SyncError(code, 'it is wrong', { cause: new Error('so') }));
    assert.equal(text, `p: it is wrong: so\nWhat to do: ${ERROR_CODES[code].remedy} [${code}]\n`);
  }
  assert.match(await end(new Error('outer', { cause: new SyncError('listen_failed', 'x') })), /\[listen_failed\]\n$/);
  assert.match(await end(new UsageError('x')), /--help.*\[usage_invalid\]\n$/);
  assert.match(await end(new TypeError('x')), /\[unexpected\]\n$/);
});

test('every kind of failure has its exit code', async () => {
  for (const [error, code] of [
    [new UsageError('x'), 2],
    [new SyncError('config_invalid', 'x'), 2],
    [new SyncError('listen_failed', 'x'), 1],
    [new SyncError('listen_failed', 'x', { cause: Object.assign(new Error(), { code: 'EADDRINUSE' }) }), 1],
    [new SyncError('listen_failed', 'x', { cause: Object.assign(new Error(), { code: 'EADDRNOTAVAIL' }) }), 2],
    [new SyncError('listen_failed', 'x', { cause: Object.assign(new Error(), { code: 'EACCES' }) }), 2],
    [new Error('x'), 1],
  ] as const) {
    const program = new Command('p').action(() => Promise.reject(error));
    assert.equal(await runCommandLine(program, [], gatheredIo()), code);
  }
  const program = new Command('p').action(() => undefined);
  assert.equal(await runCommandLine(program, [], gatheredIo()), 0);
});

test('what others said in a failure does not reach the terminal as a command', async () => {
  const io = gatheredIo();
  const fails = new Command('x').action(() => {
    throw new SyncError(
      'server_refused',
      'http://x answered 400: \u001b]0;title\u0007\u001b[31mred\u202e\u009b2J:\n  more',
    );
  });
  await runCommandLine(fails, [], io);
  assert.match(
    io.written.stderr,
    /^x: http:\/\/x answered 400: {2}\]0;title {2}\[31mred {2}2J:\n {2}more\nWhat to do: /,
  );
});
