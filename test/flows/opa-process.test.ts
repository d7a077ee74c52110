import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmod, mkdir, readdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { OpaProcess, type OpaProcessOptions, signalGroup } from '../../src/client/engine/opa/opa-process.js';
import { SyncError } from '../../src/lib/errors.js';
import type { Logger } from '../../src/lib/observe/log.js';
import { killProcess } from '../support/kill.js';
import { freePort, testOpa } from '../support/opa.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** A logger that remembers its lines. */
function recordingLog(): { log: Logger; lines: string[] } {
  const lines: string[] = [];
  const record = (...args: unknown[]): void => {
    lines.push(args.map((part) => (typeof part === 'string' ? part : JSON.stringify(part))).join(' '));
  };
  const log: Logger = { debug: record, info: record, warn: record, error: record, child: () => log };
  return { log, lines };
}

/** An engine process under test; disposing stops it and fails when it does not end in order. */
async function engine(overrides: Partial<OpaProcessOptions> = {}) {
  const dir = await tempDir();
  const url = overrides.engineUrl ?? `http://127.0.0.1:${await freePort()}`;
  const { log, lines } = recordingLog();
  const starts: { pid: number; run: number }[] = [];
  const exits: string[] = [];
  const process_ = new OpaProcess(
    {
      execPath: await testOpa(),
      engineUrl: url,
      v0Compatible: false,
      logFormat: 'none',
      env: process.env,
      tempDir: dir.path,
      ...overrides,
    },
    { log, onStarted: (start) => starts.push(start), onExit: ({ reason }) => exits.push(reason) },
  );
  const controller = new AbortController();
  const running = process_.run(controller.signal);
  // Tests that expect a failure await `running` themselves; the others get it from `stop`.
  running.catch(() => undefined);
  const stop = async (): Promise<void> => {
    controller.abort();
    await running;
  };
  return {
    url,
    dir: dir.path,
    lines,
    starts,
    exits,
    running,
    stop,
    pid: () => process_.pid,
    started: (count: number) =>
      until(() => starts.length >= count, { withinMs: 20_000, what: `start number ${count}`, unless: running }),
    [Symbol.asyncDispose]: async () => {
      controller.abort();
      await running.catch(() => undefined);
      await dir[Symbol.asyncDispose]();
    },
  };
}

function hasCode(code: string, says: RegExp) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof SyncError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, says);
    return true;
  };
}

/** A shell script in the place of OPA that runs the real one; `$REAL` is its path. */
async function wrapper(dir: string, script: string): Promise<string> {
  await mkdir(dir, { recursive: true });
  const file = join(dir, 'wrapper.sh');
  await writeFile(file, `#!/bin/sh\n${script}\n`);
  await chmod(file, 0o755);
  return file;
}

// Most of the time each of them waits for a program.
describe('the process of the inline engine', { concurrency: 4 }, () => {
  test('the engine starts, answers, and a stop leaves no process and no file', async () => {
    await using at = await engine({ configText: '{"labels":{"app":"policysync-test"}}' });
    await at.started(1);
    const pid = at.starts[0]?.pid ?? 0;
    assert.equal(at.pid(), pid);
    assert.equal((await fetch(`${at.url}/health`)).status, 200);
    const config = await (await fetch(`${at.url}/v1/config`)).text();
    assert.match(config, /"app":"policysync-test"/);
    await at.stop();
    assert.equal(signalGroup(pid, 0), false);
    assert.equal(at.pid(), undefined);
    assert.deepEqual(await readdir(at.dir), []);
    assert.deepEqual(at.exits, []);
  });

  test('a killed engine is started again and said to be a new run', async () => {
    await using at = await engine();
    await at.started(1);
    killProcess(at.starts[0]?.pid);
    await at.started(2);
    assert.deepEqual(
      at.starts.map(({ run }) => run),
      [1, 2],
    );
    assert.notEqual(at.starts[0]?.pid, at.starts[1]?.pid);
    assert.deepEqual(at.exits, ['it was ended by SIGKILL']);
    assert.equal((await fetch(`${at.url}/health`)).status, 200);
  });

  test('an address that another program has is a clear error at the first start', async () => {
    const other = createServer().listen(await freePort(), '127.0.0.1');
    await once(other, 'listening');
    const address = other.address();
    assert.ok(address !== null && typeof address !== 'string');
    try {
      for (const host of ['127.0.0.1', 'localhost']) {
        await using at = await engine({ engineUrl: `http://${host}:${address.port}` });
        await assert.rejects(
          at.running,
          hasCode('engine_address_in_use', new RegExp(`${host}:${address.port}: another`)),
        );
        assert.deepEqual(at.starts, []);
      }
    } finally {
      other.close();
    }
  });

  test('an address that is taken while the engine is down is reported and waited for', async () => {
    await using dir = await tempDir();
    // Every start but the first waits a moment before it becomes OPA: time to take the address away.
    const flag = join(dir.path, 'started');
    const execPath = await wrapper(
      dir.path,
      `if [ -e "${flag}" ]; then sleep 1; fi; touch "${flag}"; exec "$REAL" "$@"`,
    );
    await using at = await engine({
      execPath,
      env: { ...process.env, REAL: await testOpa() },
      restartBackoff: { minMs: 1, maxMs: 50 },
    });
    await at.started(1);
    killProcess(at.starts[0]?.pid);
    await until(() => at.exits.length === 1 && at.pid() !== undefined, { withinMs: 20_000, what: 'the second start' });
    const other = createServer().listen(Number(new URL(at.url).port), '127.0.0.1');
    await once(other, 'listening');
    try {
      await until(() => at.exits.filter((reason) => reason.includes('another program does')).length >= 2, {
        withinMs: 20_000,
        what: 'the taken address is reported, by OPA and before OPA',
      });
    } finally {
      other.close();
    }
    await at.started(2);
    assert.equal((await fetch(`${at.url}/health`)).status, 200);
  });

  test('an executable that is not there or cannot run is a clear error', async () => {
    await using missing = await engine({ execPath: '/nowhere/opa' });
    await assert.rejects(missing.running, hasCode('engine_not_found', /\/nowhere\/opa.*ENOENT/));
    await using wrong = await engine({ execPath: '/bin/false' });
    await assert.rejects(wrong.running, hasCode('engine_start_failed', /ended with code 1/));
  });

  test("a configuration that OPA refuses is an error with OPA's words", async () => {
    await using at = await engine({ configText: '{"services":3}' });
    await assert.rejects(at.running, hasCode('engine_start_failed', /config error: json/));
    assert.deepEqual(await readdir(at.dir), []);
  });

  test("our configuration is laid over the operator's own file", async () => {
    await using dir = await tempDir();
    const file = join(dir.path, 'opa.yaml');
    await writeFile(file, 'labels:\n  region: north\nservices:\n  theirs:\n    url: http://127.0.0.1:1\n');
    const ours = { labels: { app: '123', 'a.b': 'c,d=e' }, services: { ours: { url: 'http://127.0.0.1:2' } } };
    await using at = await engine({ config: { config_file: file }, configText: JSON.stringify(ours) });
    await at.started(1);
    const { result } = (await (await fetch(`${at.url}/v1/config`)).json()) as { result: Record<string, object> };
    const { labels, services } = result;
    const { id: _id, version: _version, ...own } = labels as Record<string, string>;
    assert.deepEqual(own, { region: 'north', app: '123', 'a.b': 'c,d=e' });
    assert.deepEqual(Object.keys(services ?? {}).sort(), ['ours', 'theirs']);
  });

  test('requests are logged as method, path and status in the http format', async () => {
    await using at = await engine({ logFormat: 'http' });
    await at.started(1);
    await fetch(`${at.url}/v1/data/logged`, { method: 'PUT', body: '{}' });
    await until(() => at.lines.some((line) => line.includes('engine: PUT /v1/data/logged -> 204')), {
      withinMs: 20_000,
      what: 'the request in our log',
    });
  });

  test('with authorization on, an engine that refuses is a started one', async () => {
    await using at = await engine({ config: { authorization: 'basic' } });
    await at.started(1);
    assert.notEqual((await fetch(`${at.url}/health`)).status, 200);
  });

  test('an engine that prints a Go panic and stays is ended and started again', async () => {
    await using dir = await tempDir();
    const flag = join(dir.path, 'panicked');
    const execPath = await wrapper(
      dir.path,
      `if [ ! -e "${flag}" ]; then touch "${flag}"; (sleep 0.5; echo "panic: boom" >&2) & fi\nexec "$REAL" "$@"`,
    );
    await using at = await engine({ execPath, env: { ...process.env, REAL: await testOpa() } });
    await at.started(2);
    assert.ok(at.lines.some((line) => line.includes('engine: panic: boom')));
  });

  test('an engine behind a wrapper that ignores SIGTERM is gone after the time for SIGKILL', async () => {
    await using dir = await tempDir();
    const execPath = await wrapper(dir.path, `trap '' TERM\n"$REAL" "$@" &\nwhile :; do wait; sleep 0.1; done`);
    await using at = await engine({ execPath, env: { ...process.env, REAL: await testOpa() }, killAfterMs: 300 });
    await at.started(1);
    await at.stop();
    await assert.rejects(fetch(`${at.url}/health`));
  });
});
