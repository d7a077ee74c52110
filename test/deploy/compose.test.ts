import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { chmod, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, it, test } from 'node:test';
import { promisify } from 'node:util';
import * as z from 'zod';
import { startCommand } from '../support/command.js';
import { composeProgram } from '../support/deploy-programs.js';
import { gitRepo } from '../support/git-repo.js';
import { KNOWN_SETTINGS, unknownSettings } from '../support/known-settings.js';
import { freePort, testOpa } from '../support/opa.js';
import { repoRoot } from '../support/repo.js';
import { runHere } from '../support/run-here.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const run = promisify(execFile);
const ROOT = repoRoot();
const FOLDER = join(ROOT, 'deploy', 'compose');
const FILES = readdirSync(FOLDER).filter((name) => name.endsWith('.yaml'));

const compose = await composeProgram();
const skip = 'missing' in compose && compose.missing;

const service = z.looseObject({
  image: z.string(),
  build: z.looseObject({ context: z.string(), dockerfile: z.string() }).optional(),
  environment: z.record(z.string(), z.string()).default({}),
  volumes: z.array(z.looseObject({ type: z.string(), source: z.string(), target: z.string() })).default([]),
  secrets: z.array(z.looseObject({ source: z.string() })).default([]),
  ports: z.array(z.looseObject({ host_ip: z.string().optional() })).default([]),
  read_only: z.boolean().default(false),
  cap_drop: z.array(z.string()).default([]),
  security_opt: z.array(z.string()).default([]),
});
const model = z.looseObject({
  services: z.record(z.string(), service),
  secrets: z.record(z.string(), z.looseObject({ file: z.string() })).default({}),
});

/** What Docker Compose makes of a file: merged, with every variable filled in, its paths absolute. */
async function loaded(name: string): Promise<z.infer<typeof model>> {
  assert('path' in compose);
  await using dir = await tempDir();
  const text = readFileSync(join(FOLDER, name), 'utf8');
  // The program does not read variables of its environment: those that must be set are filled in here.
  const file = join(dir.path, name);
  await writeFile(file, text.replaceAll(/\$\{\w+:\?[^}]*\}/g, 'https://policies.example/team'));
  const { stdout } = await run(compose.path, ['--format', 'json', file], { cwd: FOLDER });
  return model.parse(JSON.parse(stdout));
}

const OURS = /^policysync\/(server|client(?:-embedded)?):local$/;

assert.deepEqual(FILES.sort(), ['authentication.yaml', 'offline.yaml', 'quickstart.yaml', 's3.yaml', 'servers.yaml']);

for (const name of FILES) {
  describe(`deploy/compose/${name}`, { skip }, () => {
    it('is a Compose file, with settings, mounts and images that exist', async () => {
      const { services, secrets } = await loaded(name);
      assert(Object.keys(services).length >= 2);
      for (const [key, { image, build, environment, volumes, ports, ...rest }] of Object.entries(services)) {
        const ours = OURS.exec(image)?.[1];
        if (ours !== undefined) {
          assert.equal(basename(build?.dockerfile ?? ''), `${ours}.Dockerfile`);
          assert(existsSync(join(ROOT, 'deploy', 'container', `${ours}.Dockerfile`)));
          const known = KNOWN_SETTINGS[ours === 'server' ? 'server' : 'client'];
          for (const setting of Object.keys(environment)) assert(known.has(setting), `${key}: ${setting}`);
          assert.deepEqual([rest.read_only, rest.cap_drop, rest.security_opt.length], [true, ['ALL'], 1], key);
        }
        for (const { type, source } of volumes) assert(type !== 'bind' || existsSync(source), `${key}: ${source}`);
        for (const { source } of rest.secrets) assert(Object.hasOwn(secrets, source), `${key}: secret ${source}`);
        // Only what has authentication and TLS is open to other machines.
        for (const port of ports)
          assert(port.host_ip === '127.0.0.1' || key === 'nginx', `${key}: ${JSON.stringify(port)}`);
      }
      for (const { file } of Object.values(secrets)) assert.match(file, /\/secrets\/[\w.-]+$/);
    });

    it('begins with commands that have the variables that they need', () => {
      const text = readFileSync(join(FOLDER, name), 'utf8');
      const [head = ''] = text.split(/^(?!#)/m);
      const commands = head
        .replaceAll(/ \\\n# +/g, ' ')
        .split('\n')
        .filter((line) => line.includes('docker compose -f'));
      assert(commands.length > 0);
      for (const [, variable = ''] of text.matchAll(/\$\{(\w+):\?/g)) {
        if (head.includes(`export ${variable}=`)) continue;
        for (const command of commands) assert(command.includes(`${variable}=`), command);
      }
    });

    it('has no secret as it is', async () => {
      const text = readFileSync(join(FOLDER, name), 'utf8');
      assert.deepEqual(unknownSettings(text), []);
      assert.doesNotMatch(text, /(?:PASSWORD|TOKEN|PRIVATE_KEY|SECRET|BROADCAST_URI)[A-Z_]*(?<!_FILE|_ID):/);
    });
  });
}

test('docs/how-to/deploy.md makes every secret of the files that it starts, and starts one at a time', () => {
  const page = readFileSync(join(ROOT, 'docs', 'how-to', 'deploy.md'), 'utf8');
  for (const name of ['authentication.yaml', 'servers.yaml']) {
    const text = readFileSync(join(FOLDER, name), 'utf8');
    for (const [, file = ''] of text.matchAll(/file: \.\/(secrets\/[\w.-]+)/g)) {
      assert(page.includes(file.replace(/\.pub$/, '')), `${name}: ${file}`);
    }
    assert.match(page, new RegExp(`^docker compose -f ${name} up --build --detach --wait$`, 'm'));
  }
  const [down, up] = ['authentication.yaml down', 'servers.yaml up'].map((end) =>
    page.indexOf(`docker compose -f ${end}`),
  );
  assert(down !== undefined && up !== undefined && down > 0 && down < up);
});

describe('with authentication', { skip }, () => {
  it('the settings and secrets of the Compose file, made as the guide says, lead to a client that is ready', async () => {
    await using dir = await tempDir();
    await using repo = await gitRepo();
    await repo.commit({ 'app.rego': 'package app\n\nallow := true\n' });
    const { services, secrets } = await loaded('authentication.yaml');
    /** Its environment, with the files that the guide makes in place of those that a container would see. */
    const environment = (name: string): Record<string, string> => {
      const file = (secret = ''): string => join(dir.path, basename(secrets[secret]?.file ?? assert.fail(secret)));
      const entries = Object.entries(services[name]?.environment ?? {});
      return Object.fromEntries(
        entries.map(([key, value]) => [
          key,
          value.replace(/^\/run\/secrets\/(.+)$/, (_, secret: string) => file(secret)),
        ]),
      );
    };

    await runHere('policysync', ['keys', '--bits', '2048', '--out', join(dir.path, 'auth-private-key')]);
    await runHere('policysync', ['keys', '--secret', '--out', join(dir.path, 'auth-master-token')]);
    const [port, apiPort, enginePort] = [await freePort(), await freePort(), await freePort()];
    const url = `http://127.0.0.1:${port}`;
    await using server = startCommand('policysync', ['server'], {
      ...environment('server'),
      SYNC_POLICY_REPO_URL: repo.url,
      SYNC_POLICY_REPO_MAIN_BRANCH: 'master',
      SYNC_SERVER_BIND_PORT: String(port),
      SYNC_STATE_DIR: join(dir.path, 'state'),
    });
    await server.says(/sync server is listening/);
    const master = join(dir.path, 'auth-master-token');
    const issued = await runHere('policysync', ['token', '--master-token-file', master, '--server-url', url]);
    assert.equal(issued.code, 0, issued.stderr);
    await writeFile(join(dir.path, 'client-token'), issued.stdout);
    await chmod(join(dir.path, 'client-token'), 0o600);

    const ofClient = {
      ...environment('client'),
      SYNC_SERVER_URL: url,
      SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa(),
      SYNC_CLIENT_API_SERVER_PORT: String(apiPort),
      SYNC_POLICY_STORE_URL: `http://127.0.0.1:${enginePort}`,
    };
    await using _client = startCommand('policysync', ['client'], ofClient);
    const ready = async (): Promise<boolean> =>
      (await runHere('policysync', ['healthcheck', 'client'], ofClient)).code === 0;
    await until(ready, { withinMs: 30_000, what: `the client is ready: ${server.stderr()}` });
    // Without a token the server tells nothing.
    assert.equal((await fetch(`${url}/policy`)).status, 401);
  });
});
