import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { makeFiles } from './make-files.js';
import type { Plan } from './plan.js';
import { reportLines } from './report.js';

const LOCAL: Plan = {
  mode: 'local',
  repository: 'https://bob:hush@git.example/policies.git',
  branch: 'main',
  sshKey: undefined,
  serverName: 'localhost',
  port: 7002,
  clientPort: 7000,
  enginePort: 8181,
  tls: 'none',
  targets: ['systemd'],
  registry: undefined,
  tokenSeconds: 60,
  warnings: [],
};

/** What init prints for a plan, and the files that it writes. */
async function printed(plan: Plan): Promise<{ text: string; paths: string[] }> {
  const files = await makeFiles(plan, { env: {}, schema: undefined });
  const text = reportLines({ plan, folder: '.', files, replaced: undefined, program: 'policysync', warnings: [] }).join(
    '\n',
  );
  return { text, paths: files.map(({ path }) => path) };
}

describe('what init prints', () => {
  it('counts and names every file that it writes, with what it is for', async () => {
    for (const plan of [LOCAL, { ...LOCAL, mode: 'network' } as const]) {
      const { text, paths } = await printed(plan);
      assert(text.startsWith(`Wrote ${paths.length} files:\n`), text);
      assert(paths.includes('state/.gitignore'));
      const named = [...text.matchAll(/^ {2}(\S+) +\S/gm)].map(([, path]) => path);
      assert.deepEqual(
        paths.filter((path) => !named.includes(path)),
        [],
      );
      assert.doesNotMatch(text, /hush/);
    }
  });

  it('says which token each command takes', async () => {
    const { text } = await printed({ ...LOCAL, mode: 'network', targets: [] });
    assert.match(text, /`publish`, `refresh` and `log` take\n`--token-file secrets\/datasource-token`/);
    assert.match(text, /`status`, `clients` and `trace` take `--token-file secrets\/listener-token`/);
    assert.doesNotMatch((await printed({ ...LOCAL, targets: [] })).text, /token-file/);
  });
});
