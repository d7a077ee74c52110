import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { pino } from 'pino';
import { startCommand } from '../support/command.js';
import { gitRepoAt } from '../support/git-repo.js';
import { startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';

test('a start says in one line each what runs, what it follows and how, who may call, where the log is, where it listens', async () => {
  await using dir = await tempDir();
  const repo = await gitRepoAt(join(dir.path, 'repo'));
  await repo.commit({ 'a.rego': 'package a' });
  const stateDir = join(dir.path, 'state');
  await using server = startCommand('server', ['run'], {
    SYNC_SERVER_BIND_PORT: '0',
    SYNC_STATE_DIR: stateDir,
    SYNC_POLICY_REPO_URL: repo.path,
    SYNC_AUTH_MASTER_TOKEN: 'hush',
  });
  await server.says(/policy commit served/);
  const lines = server
    .stderr()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { level: string; msg: string; url?: string });
  const expected: [string, RegExp][] = [
    ['info', /^version: \d+\.\d+\.\d+, Node \d+/],
    ['info', /^policy: .*\/repo, its default branch, checked with any webhook, not polled$/],
    ['info', /^authentication: off, and only this machine reaches the API$/],
    ['warn', /^SYNC_AUTH_MASTER_TOKEN is set, and there are no keys/],
    ['warn', /^SYNC_POLICY_REPO_POLLING_INTERVAL is 0 and SYNC_POLICY_REPO_WEBHOOK_SECRET is not set/],
    ['info', /^update log: .*\/state, of this server alone, durable$/],
    ['info', /^sync server is listening$/],
    ['info', /^policy commit served$/],
  ];
  assert.deepEqual(
    lines.map(({ level }) => level),
    expected.map(([level]) => level),
    server.stderr(),
  );
  for (const [index, [, msg]] of expected.entries()) assert.match(lines[index]?.msg ?? '', msg);
  assert.match(lines.find(({ msg }) => msg.includes('listening'))?.url ?? '', /^http:\/\/127\.0\.0\.1:\d+$/);
});

test('"another update log" is said of another one only, not at a first start', async () => {
  const logged: string[] = [];
  const log = pino({ level: 'info' }, { write: (line) => void logged.push(line) });
  const first = await startServer({}, { log });
  await using client = await startClient({ serverUrl: first.url });
  const says = (what: string): boolean => client.log.some(({ msg }) => msg.includes(what));
  await client.tells('it is connected', () => says('the update log of the server is followed'));
  assert.equal(says('another update log'), false);
  assert.doesNotMatch(logged.join(''), /another|not used/);
  await first[Symbol.asyncDispose]();
  await using _second = await startServer({ SYNC_SERVER_BIND_PORT: String(first.port) });
  await client.tells('it follows the next one', () => says('the server has another update log'));
});
