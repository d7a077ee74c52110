import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gitRepo } from '../support/git-repo.js';
import { field, request } from '../support/http.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** A commit of which no bundle can be built is not served: everybody keeps the one before, and the server says why. */

const GOOD = { 'app/good.rego': 'package app\n\nallow := true\n' };
const MIB = 1024 * 1024;
const WITHIN = { withinMs: 60_000 };

async function policyOf(url: string): Promise<{ hash: unknown; paths: unknown[] }> {
  const answer = await request(`${url}/policy`);
  assert.equal(answer.status, 200, answer.text.slice(0, 300));
  const modules = field(answer.json, 'policy_modules') as unknown[];
  return { hash: field(answer.json, 'hash'), paths: modules.map((one) => field(one, 'path')) };
}

test('more than one bundle can have, and a module of comments alone, take the policy from nobody', async () => {
  await using repo = await gitRepo();
  const first = await repo.commit(GOOD);
  await using server = await startServer({
    SYNC_POLICY_REPO_URL: repo.url,
    SYNC_POLICY_REPO_POLLING_INTERVAL: '0.2',
    SYNC_POLICY_GATE: 'off',
  });
  await until(async () => (await request(`${server.url}/policy`)).status === 200, {
    ...WITHIN,
    what: 'the first commit',
  });
  const shown = async (): Promise<string> => (await request(`${server.url}/healthcheck`)).text;

  // Each of these characters takes six in a bundle, which is one text.
  const wide = `package wide\n# ${'\u0001'.repeat(4 * MIB)}\n`;
  const many = Object.fromEntries(Array.from({ length: 24 }, (_, at) => [`wide/w${at}.rego`, wide]));
  const tooLarge = await repo.commit(many);
  const refusal = await until(async () => (await shown()).includes(tooLarge) && (await shown()), {
    ...WITHIN,
    what: 'the large commit is refused',
  });
  assert.match(
    refusal,
    /the policy takes 577 MiB as JSON, and a bundle at most 512 MiB: leave out files with SYNC_BUNDLE_IGNORE/,
  );
  assert.deepEqual(await policyOf(server.url), { hash: first, paths: ['app/good.rego'] });

  const none = Object.fromEntries(Object.keys(many).map((path) => [path, null]));
  const comments = await repo.commit({
    ...none,
    'app/comments.rego': `${'# c\n'.repeat(3 * MIB)}package app.comments\n`,
  });
  await until(async () => (await policyOf(server.url)).hash === comments, {
    ...WITHIN,
    what: 'the module of comments is served',
  });
  const { paths } = await policyOf(server.url);
  assert.deepEqual(paths.sort(), ['app/comments.rego', 'app/good.rego']);
  const last = await repo.commit({ 'app/comments.rego': null, 'app/new.rego': 'package app.new\n' });
  await until(async () => (await policyOf(server.url)).hash === last, { ...WITHIN, what: 'the next commit' });
});
