import assert from 'node:assert/strict';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { BAD_ARCHIVES, bundleOf, TEST_LIMITS, tarGz } from '../support/archive.js';
import { bundleHttpServer } from '../support/bundle-http-server.js';
import { runGit } from '../support/git-repo.js';
import { EVIL_ENTRIES } from '../support/hostile-archives.js';
import { field, postJson, request } from '../support/http.js';
import { runSize } from '../support/run-size.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** What whoever runs the bundle server gets by archives: a refusal by name, and nothing beside the mirror. */

const SEED = Number(process.env.SYNC_TEST_SEED ?? 20_261_122);

test('an archive that leads out, links, or unpacks without end is refused by name, and the bundle before is served on', async () => {
  await using dir = await tempDir();
  const around = join(dir.path, 'around');
  const stateDir = join(around, 'state');
  await mkdir(around);
  await using bundles = await bundleHttpServer();
  await bundles.put(await bundleOf({ 'good.rego': 'package good\n' }));
  await using server = await startServer(
    {
      SYNC_POLICY_SOURCE_TYPE: 'API',
      SYNC_POLICY_BUNDLE_URL: bundles.url,
      SYNC_POLICY_BUNDLE_LIMIT_UNPACKED_BYTES: String(TEST_LIMITS.unpackedBytes),
      SYNC_POLICY_BUNDLE_LIMIT_ENTRIES: String(TEST_LIMITS.entries),
    },
    { stateDir },
  );
  const policy = async (): Promise<unknown> => field((await request(`${server.url}/healthcheck`)).json, 'policy');
  const untilPolicy = (what: string, fits: (policy: unknown) => boolean): Promise<unknown> =>
    until(async () => fits(await policy()), { withinMs: 15_000, what });
  const look = async (): Promise<void> => {
    assert.equal((await postJson(`${server.url}/webhook`, {})).status, 200);
  };
  await untilPolicy('the good bundle', (now) => typeof field(now, 'head') === 'string');
  const head = field(await policy(), 'head');

  for (const [which, { bytes, says }] of Object.entries(BAD_ARCHIVES)) {
    await bundles.put(await bytes());
    await look();
    await untilPolicy(`the refusal of an archive ${which}`, (now) => says.test(String(field(now, 'error'))));
    assert.equal(field(await policy(), 'head'), head, which);
    assert.equal(field(await policy(), 'code'), 'bundle_archive_refused', which);
  }
  for (const entries of fc.sample(EVIL_ENTRIES, {
    seed: SEED,
    numRuns: runSize({ long: 150, ci: 60, quick: 12 }),
  })) {
    const asked = bundles.answered(200);
    await bundles.put(await tarGz(entries));
    await look();
    await until(() => bundles.answered(200) > asked, { withinMs: 15_000, what: `SYNC_TEST_SEED=${SEED}: a look` });
  }

  await bundles.put(await bundleOf({ 'last.rego': 'package last\n' }));
  await look();
  await untilPolicy('the last bundle', (now) => field(now, 'state') === 'following' && field(now, 'head') !== head);
  const manifest = field((await request(`${server.url}/policy`)).json, 'manifest');
  assert.deepEqual(manifest, ['last.rego']);
  await server.stop();

  assert.deepEqual(await readdir(around), ['state']);
  const links = (await readdir(stateDir, { recursive: true, withFileTypes: true })).filter(
    (entry) => !entry.isFile() && !entry.isDirectory(),
  );
  assert.deepEqual(links, []);
  const objects = await runGit([
    '-C',
    join(stateDir, 'policy-bundle'),
    'log',
    '--all',
    '--raw',
    '--no-abbrev',
    '--format=',
  ]);
  assert(!/ (?:120000|160000) /.test(objects), 'no commit has a link or a submodule');
});
