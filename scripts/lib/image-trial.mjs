import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Fatal } from './run.mjs';

const exec = promisify(execFile);
const POLICIES = fileURLToPath(new URL('../../examples/policies', import.meta.url));
const HEALTHY_MS = 60_000;
const PORTS = { server: 17_002, client: 17_000, engine: 18_181 };

/**
 * Runs each image as a container runtime would: its user, its environment, its entry point, a read-only root with a folder for each
 * volume, no new privileges. The server serves a repository, the clients one after the other decide by it.
 */
export async function tryImages(builder) {
  const folder = mkdtempSync(join(tmpdir(), 'policysync-images-'));
  try {
    const server = await Container.start(builder, 'server', folder, {
      mounts: { '/srv': await policyRepository(folder) },
      env: {
        SYNC_SERVER_BIND_PORT: String(PORTS.server),
        SYNC_POLICY_REPO_URL: '/srv',
        SYNC_POLICY_REPO_MAIN_BRANCH: 'main',
      },
    });
    await server.use(async () => {
      await server.healthy();
      for (const image of ['client', 'client-embedded']) {
        const client = await Container.start(builder, image, folder, { env: clientEnv() });
        await client.use(() => tryClient(server, client));
        console.log(`policysync/${image}: healthy, decides, is locked down, stops`);
      }
      await server.checkLocked();
      await server.stop();
    });
    console.log('policysync/server: healthy, serves a repository, is locked down, stops');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const SERVER_URL = `http://127.0.0.1:${PORTS.server}`;

function clientEnv() {
  return {
    SYNC_SERVER_URL: SERVER_URL,
    SYNC_CLIENT_API_SERVER_PORT: String(PORTS.client),
    SYNC_POLICY_STORE_URL: `http://127.0.0.1:${PORTS.engine}`,
    SYNC_INLINE_ENGINE_CONFIG: JSON.stringify({ addr: `0.0.0.0:${PORTS.engine}` }),
  };
}

async function tryClient(server, client) {
  await client.healthy();
  const users = JSON.stringify({ alice: { role: 'viewer' } });
  const publish = ['policysync', 'publish', '--dst-path', '/users', '--data', users, '--wait', '20'];
  await server.exec(publish, { SYNC_SERVER_URL: SERVER_URL });
  assert.equal(await decision({ user: 'alice', action: 'read' }), true);
  assert.equal(await decision({ user: 'alice', action: 'write' }), false);
  assert(!existsSync(join(client.root, 'bin', 'sh')), 'there is a shell');
  await client.checkLocked();
  await client.stop();
}

/** A repository of the sample policies that belongs to the user of the images. */
async function policyRepository(folder) {
  const repository = join(folder, 'repository');
  cpSync(POLICIES, repository, { recursive: true });
  const git = (...args) =>
    exec('git', ['-C', repository, '-c', 'user.name=example', '-c', 'user.email=e@example', ...args]);
  await git('init', '--quiet', '--initial-branch=main');
  await git('add', '--all');
  await git('commit', '--quiet', '--message=policies');
  await exec('chown', ['-R', '10001:10001', repository]);
  return repository;
}

async function decision(input) {
  const response = await fetch(`http://127.0.0.1:${PORTS.engine}/v1/data/app/rbac/allow`, {
    method: 'POST',
    body: JSON.stringify({ input }),
  });
  return (await response.json()).result;
}

/** A running container. */
class Container {
  #config;
  #env;
  #process;
  #ended;
  #said = '';
  #remove;

  static async start(builder, image, folder, { env, mounts = {} }) {
    const container = new Container();
    const { root, config, remove } = await builder.container(image);
    container.root = root;
    container.#config = config;
    container.#remove = remove;
    const ofImage = Object.fromEntries(
      config.Env.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
    );
    container.#env = { ...ofImage, ...env };
    const [user, group] = config.User.split(':');
    const mount = async (source, target, ...options) => {
      await exec('mount', ['--bind', ...options, source, target]);
    };
    for (const target of [...Object.keys(mounts), '/dev', '/proc', '/etc'])
      mkdirSync(join(root, target), { recursive: true });
    await mount(root, root);
    await exec('mount', ['-o', 'remount,bind,ro', root]);
    for (const target of Object.keys(config.Volumes)) {
      const source = mkdtempSync(join(folder, 'volume-'));
      await exec('chown', [`${user}:${group}`, source]);
      await mount(source, join(root, target));
    }
    for (const [target, source] of Object.entries(mounts)) await mount(source, join(root, target), '-o', 'ro');
    for (const target of ['/dev', '/proc']) await mount(target, join(root, target));
    const command = container.#inside([...config.Entrypoint, ...config.Cmd]);
    container.#process = spawn(command[0], command.slice(1), {
      env: container.#env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    container.#ended = once(container.#process, 'close');
    for (const stream of [container.#process.stdout, container.#process.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        container.#said += text;
      });
    }
    return container;
  }

  /** A command inside: chroot gives up root before it starts it. */
  #inside(command) {
    return [
      '/usr/bin/setpriv',
      '--no-new-privs',
      '/usr/sbin/chroot',
      `--userspec=${this.#config.User}`,
      '--groups=',
      this.root,
      ...command,
    ];
  }

  async exec(command, env = {}) {
    const [program, ...args] = this.#inside(command);
    return (await exec(program, args, { env: { ...this.#env, ...env }, timeout: 30_000 })).stdout;
  }

  /** Waits for the health check of the image. */
  async healthy() {
    const [form, ...command] = this.#config.Healthcheck.Test;
    assert.equal(form, 'CMD');
    for (const end = Date.now() + HEALTHY_MS; ; ) {
      const failure = await this.exec(command).then(
        () => undefined,
        (error) => error,
      );
      if (failure === undefined) return;
      const ended = this.#process.exitCode !== null;
      if (ended || Date.now() > end)
        throw new Fatal(`not healthy: ${failure.stderr}\n${this.#said}`, { cause: failure });
      await sleep(500);
    }
  }

  /** Its user, and that nothing but the volumes can be written. */
  async checkLocked() {
    const status = readFileSync(`/proc/${this.#process.pid}/status`, 'utf8');
    const [uid] = this.#config.User.split(':');
    assert.match(status, new RegExp(`^Uid:\\s+${uid}\\s+${uid}\\s`, 'm'));
    assert.match(status, /^CapEff:\s+0+$/m);
    assert.match(status, /^NoNewPrivs:\s+1$/m);
    const node = existsSync(join(this.root, 'nodejs')) ? '/nodejs/bin/node' : '/usr/local/bin/node';
    const write = ['-e', "require('node:fs').writeFileSync('/opt/policysync/x', '')"];
    await assert.rejects(this.exec([node, ...write]), /EROFS|EACCES/);
    const sbom = JSON.parse(readFileSync(join(this.root, 'opt', 'policysync', 'sbom.cdx.json'), 'utf8'));
    assert(sbom.components.some(({ name }) => name === 'policysync'));
  }

  async stop() {
    this.#process.kill('SIGTERM');
    const [code] = await this.#ended;
    assert.equal(code, 0, this.#said);
  }

  /** Does something with it, and ends it in any case. */
  async use(body) {
    try {
      await body();
    } finally {
      this.#process.kill('SIGKILL');
      await this.#ended;
      await this.#remove().catch(() => undefined); // mounts are below it until this script ends
    }
  }
}
