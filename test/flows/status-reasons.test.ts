import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CommandResult } from '../support/command.js';
import { startDataSource } from '../support/data-source.js';
import { gitRepo } from '../support/git-repo.js';
import { runHere } from '../support/run-here.js';
import { following, publish, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const FAIL_ON = ['--fail-on', 'unhealthy,behind,away'];

/** Runs `status` until its standard output fits; answers that run. */
async function shows(run: () => Promise<CommandResult>, ...patterns: readonly RegExp[]): Promise<CommandResult> {
  let last: CommandResult | undefined;
  const fits = async (): Promise<boolean> => {
    last = await run();
    return patterns.every((pattern) => pattern.test(last?.stdout ?? ''));
  };
  await until(fits, { withinMs: 20_000, what: `status shows ${patterns.join(' and ')}` }).catch((cause: unknown) => {
    throw new Error(`${last?.stdout}\n${last?.stderr}`, { cause });
  });
  return last as CommandResult;
}

test('status names the refused commit with file and line, the failing source, and the refused head', async () => {
  await using source = await startDataSource();
  await using repo = await gitRepo();
  const good = (await repo.commit({ 'app/rbac.rego': 'package app.rbac\n\nallow := true\n' })).slice(0, 10);
  await using server = await startServer(following(repo));
  await using client = await startClient({ serverUrl: server.url });
  const ofServer = (): Promise<CommandResult> =>
    runHere('policysync', ['status', '--server-url', server.url, ...FAIL_ON]);
  const ofClient = (): Promise<CommandResult> =>
    runHere('policysync', ['status', 'client', '--client-url', client.url, ...FAIL_ON]);
  await client.healthy();
  assert.equal((await shows(ofServer, new RegExp(`^1 client, .*policy at ${good}$`, 'm'), /^\S+ +healthy/m)).code, 0);

  source.answer('/users', { status: 500, text: '"no"' });
  await publish(server.url, { dst_path: '/users', url: `${source.url}/users` });
  const failing = /\/users: failing since \d\d:\d\d:\d\d UTC \(.*\): .*500/;
  for (const run of [ofServer, ofClient]) assert.equal((await shows(run, failing)).code, 3);
  assert.match((await ofServer()).stdout, /^\S+ +unhealthy .* 1 update, /m);

  const bad = (await repo.commit({ 'app/rbac.rego': 'package app.rbac\n\n\nallow := nothing(1)\n' })).slice(0, 10);
  const refused = new RegExp(
    `wants ${bad}, holds ${good}; failing since \\d\\d:\\d\\d:\\d\\d UTC \\(.*\\): .*app/rbac\\.rego:4: .*nothing`,
  );
  for (const run of [ofServer, ofClient]) assert.equal((await shows(run, refused, failing)).code, 3);
  assert.match((await ofServer()).stdout, / policy; 1 update, /);

  const broken = (await repo.commit({ 'app/rbac.rego': 'package app.rbac\n', 'app/data.json': '{' })).slice(0, 10);
  const head = new RegExp(`, policy at ${bad}, whose head ${broken} is refused$`, 'm');
  const reason = /^Policy source: failing since .* is served: .*app\/data\.json.*\[policy_commit_refused\]$/m;
  const told = await shows(ofServer, head, reason, /^What to do: Repair the file/m);
  assert.match(told.stderr, /the policy source is failing; 1 client is unhealthy: /);

  source.serve('/users', {});
  const mended = (await repo.commit({ 'app/data.json': null })).slice(0, 10);
  const well = await shows(ofServer, new RegExp(`policy at ${mended}$`, 'm'), /^\S+ +healthy/m);
  assert.deepEqual([well.code, well.stderr, well.stdout.includes('failing')], [0, '', false]);
  assert.equal((await ofClient()).code, 0);
});
