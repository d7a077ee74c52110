import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { runCommand } from '../support/command.js';
import { composeProgram, helmProgram } from '../support/deploy-programs.js';
import { unknownSettings } from '../support/known-settings.js';
import { repoRoot } from '../support/repo.js';
import { onPath } from '../support/server-programs.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';

/** What `policysync init` of the package writes for Compose, Kubernetes and systemd, read by what reads it. */

const run = promisify(execFile);
const CHART = join(repoRoot(), 'deploy', 'helm', 'policysync');
const [compose, helm] = await Promise.all([composeProgram(), helmProgram()]);
const noCompose = 'missing' in compose && compose.missing;
const noHelm = 'missing' in helm && helm.missing;
const noSystemd = onPath('systemd-analyze') === undefined ? 'there is no systemd-analyze here' : false;

let dir: TempDir;
const at = (...names: string[]): string => join(dir.path, ...names);

/** Every key of `given` that `known` does not have, as a path. */
function unknownKeys(given: unknown, known: unknown, path = ''): string[] {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return [];
  return Object.entries(given).flatMap(([key, value]) => {
    if (path.endsWith('.settings')) return [];
    const here = `${path}.${key}`;
    const isKnown = typeof known === 'object' && known !== null && Object.hasOwn(known, key);
    return isKnown ? unknownKeys(value, (known as Record<string, unknown>)[key], here) : [here];
  });
}

describe('what init writes', () => {
  before(async () => {
    dir = await tempDir();
    const { code, stderr } = await runCommand('policysync', [
      ...['init', dir.path, '--repository', 'https://git.example/policies.git', '--branch', 'main'],
      ...['--mode', 'network', '--tls', 'trial', '--compose', '--kubernetes', '--systemd'],
    ]);
    assert.equal(code, 0, stderr);
  });
  after(() => dir[Symbol.asyncDispose]());

  it('names settings that exist, and no secret where everybody reads', async () => {
    const secrets = await Promise.all(
      ['auth-private-key.pem', 'master-token', 'webhook-secret', 'client-token'].map((name) =>
        readFile(at('secrets', name), 'utf8'),
      ),
    );
    const units = (await readdir(at('systemd'), { recursive: true, withFileTypes: true }))
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
    assert(units.length >= 6);
    for (const file of [at('compose.yaml'), at('kubernetes-values.yaml'), at('policysync.yaml'), ...units]) {
      const text = await readFile(file, 'utf8');
      assert.deepEqual(unknownSettings(text), [], file);
      for (const secret of secrets) assert.ok(!text.includes(secret.trim()), file);
    }
  });

  it('is a Compose file whose mounts are there', { skip: noCompose }, async () => {
    assert('path' in compose);
    const { stdout } = await run(compose.path, ['--format', 'json', at('compose.yaml')], { cwd: dir.path });
    const { services, secrets } = JSON.parse(stdout) as {
      services: Record<
        string,
        { image: string; volumes: { type: string; source: string }[]; secrets: { source: string }[] }
      >;
      secrets: Record<string, { file: string }>;
    };
    assert.deepEqual(Object.keys(services).sort(), ['client', 'server']);
    for (const { image, volumes, secrets: used } of Object.values(services)) {
      assert.match(image, /^policysync\/(server|client):\d/);
      for (const { source } of volumes)
        await assert.doesNotReject(
          readdir(source).catch(() => readFile(source)),
          source,
        );
      for (const { source } of used) await assert.doesNotReject(readFile(secrets[source]?.file ?? ''), source);
    }
  });

  it('has values that the chart knows, and that it renders', { skip: noHelm }, async () => {
    const values: unknown = parse(await readFile(at('kubernetes-values.yaml'), 'utf8'));
    assert.deepEqual(unknownKeys(values, parse(await readFile(join(CHART, 'values.yaml'), 'utf8'))), []);
    assert('path' in helm);
    const { stdout } = await run(helm.path, [
      'template',
      'policysync',
      CHART,
      '--values',
      at('kubernetes-values.yaml'),
    ]);
    // The name in the certificate is that of the service.
    assert.match(stdout, /^kind: Service$[\s\S]*^ {2}name: policysync-server$/m);
    assert.match(stdout, /https:\/\/policysync-server:7002/);
  });

  it('is a unit that systemd accepts', { skip: noSystemd }, async () => {
    const units = ['server', 'client'].map((name) => at('systemd', `policysync-${name}.service`));
    const { stdout, stderr } = await run('systemd-analyze', ['verify', '--man=no', ...units], { cwd: dir.path });
    assert.deepEqual(
      `${stdout}${stderr}`.split('\n').filter((line) => line.includes('policysync')),
      [],
    );
  });
});
