import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gitRepo } from '../support/git-repo.js';
import { field } from '../support/http.js';
import { startOpa, type TestOpa } from '../support/opa.js';
import { following, publish, type StartedClient, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** An OPA that somebody else runs, with a real server and client: what a commit and a document become there. */

async function holdsPolicy(client: StartedClient, hash: string): Promise<void> {
  await client.tells(`it holds ${hash}`, (health) => field(health, 'policy', 'hash') === hash);
}

/** The user `eve` is banned, whatever the function is called with. */
const BANNED = (args: string): string => `package lib\n\nbanned(${args}) if user == "eve"\n`;
const ALLOW = (args: string): string =>
  `package app\n\nimport data.lib\n\ndefault allow := false\n\nallow if not lib.banned(${args})\n`;

/** Asks again and again whether eve is allowed; `end` returns all answers. */
function watching(opa: () => TestOpa): AsyncDisposable & { end(): Promise<readonly string[]> } {
  const seen = new Set<string>();
  let isOver = false;
  const ask = async (): Promise<void> => {
    while (!isOver) {
      try {
        const url = `${opa().url}/v1/data/app/allow`;
        const response = await fetch(url, { method: 'POST', body: '{"input":{"user":"eve"}}' });
        const { result } = (await response.json()) as { result?: unknown };
        seen.add(response.status === 200 ? String(result) : `status ${response.status}`);
      } catch {
        seen.add('no answer'); // it is started again
      }
      await sleep(5);
    }
  };
  const asking = ask();
  const end = async (): Promise<void> => {
    isOver = true;
    await asking;
  };
  return { end: () => end().then(() => [...seen]), [Symbol.asyncDispose]: end };
}

test('an external engine takes a function together with its callers, also later and after a restart, and allows nobody meanwhile', async () => {
  await using repo = await gitRepo();
  await repo.commit({ 'lib.rego': BANNED('user'), 'app.rego': ALLOW('input.user') });
  await using server = await startServer(following(repo));
  let opa = await startOpa();
  await using _end = { [Symbol.asyncDispose]: () => opa.stop() };
  const env = { SYNC_POLICY_STORE_LIVENESS_PROBE_INTERVAL_SECONDS: '0.2' };
  await using client = await startClient({ serverUrl: server.url, engineUrl: opa.url, env });
  await client.answers('/app/allow', { user: 'ann' }, true);
  await using watch = watching(() => opa);

  await holdsPolicy(client, await repo.commit({ 'lib.rego': BANNED('user, _'), 'app.rego': ALLOW('input.user, 1') }));
  await client.answers('/app/allow', { user: 'ann' }, true);
  await client.healthy();

  // The callers of a function that does not fit: refused as a whole.
  const refused = await repo.commit({ 'app.rego': ALLOW('input.user, 1, 2'), 'new.rego': 'package new\n\nx := 1\n' });
  await client.tells('it is refused', (health) => {
    const policy = field(health, 'policy') as Record<string, unknown> | undefined;
    return policy?.wanted === refused && JSON.stringify(policy).includes('app.rego');
  });
  assert.equal(await client.query('/new/x'), undefined);
  await client.answers('/app/allow', { user: 'ann' }, true);

  const both = await repo.commit({ 'lib.rego': BANNED('user, _, _'), 'new.rego': 'package new\n\nx := 2\n' });
  await holdsPolicy(client, both);
  await client.answers('/new/x', {}, 2);

  const { port } = opa;
  await opa.stop();
  opa = await startOpa({ port });
  await client.answers('/app/allow', { user: 'ann' }, true);
  await client.healthy();
  await holdsPolicy(client, await repo.commit({ 'lib.rego': BANNED('user'), 'app.rego': ALLOW('input.user') }));
  await client.answers('/app/allow', { user: 'ann' }, true);
  const answers = await watch.end();
  assert(answers.includes('false'));
  const allowed = ['false', 'undefined', 'status 500', 'no answer'];
  assert.deepEqual(
    answers.filter((answer) => !allowed.includes(answer)),
    [],
  );
});

test('documents of any name, 30 at once, are in an external engine where they belong, also after a restart, and are compared', async () => {
  const names = ['a%20b', 'root%41', '50%', '%', 'a"b', '007', '+49170', 'a/b', '~1', 'é', '\u0001', '"'];
  await using repo = await gitRepo();
  await repo.commit({ '50%/data.json': '{"k":{"%41":1}}', '50%/x.rego': 'package pct\n\nx := data["50%"].k["%41"]\n' });
  await using server = await startServer(following(repo));
  let opa = await startOpa();
  await using _end = { [Symbol.asyncDispose]: () => opa.stop() };
  const env = { SYNC_POLICY_STORE_LIVENESS_PROBE_INTERVAL_SECONDS: '0.2', SYNC_DRIFT_CHECK_INTERVAL: '0.1' };
  await using client = await startClient({ serverUrl: server.url, engineUrl: opa.url, env });
  await client.answers('/pct/x', {}, 1);
  const paths = Array.from({ length: 30 }, (_, n) => ['m', names[n % names.length] ?? '', `${n}%25`]);
  await publish(
    server.url,
    ...paths.map((path, n) => ({ dst_path: `/${path.map(encodeURIComponent).join('/')}`, data: { n } })),
  );
  const wanted: Record<string, Record<string, object>> = {};
  for (const [n, [, name = '', last = '']] of paths.entries()) wanted[name] = { ...wanted[name], [last]: { n } };
  await client.holds('/m', wanted);

  const { port } = opa;
  await opa.stop();
  opa = await startOpa({ port });
  await client.holds('/m', wanted);
  await client.answers('/pct/x', {}, 1);
  await client.healthy();

  // Somebody else changes what is below a quote, and what is below a plain name: both are found.
  const change = [
    { op: 'replace', path: '/m/a"b/4%2525/n', value: 1000 },
    { op: 'replace', path: '/m/é/9%2525/n', value: 1000 },
  ];
  const drift = async (name: string): Promise<unknown> => field((await client.health()).json, 'data', 'drift', name);
  // Twice: the first may have begun before the engine was filled.
  for (let round = 0; round < 2; round++) {
    const before = await drift('checked_at');
    await until(async () => (await drift('checked_at')) !== before, { withinMs: 20_000, what: 'all are compared' });
  }
  assert.deepEqual([await drift('documents'), await drift('error'), await drift('repaired')], [31, null, 0]);
  const answer = await fetch(`${opa.url}/v1/data`, { method: 'PATCH', body: JSON.stringify(change) });
  assert.equal(answer.status, 204);
  await client.tells('both are mended', (health) => field(health, 'data', 'drift', 'repaired') === 2);
  await client.holds('/m', wanted);
});
