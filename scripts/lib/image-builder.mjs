import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { nodeProgram } from './node-versions.mjs';
import { Fatal, run } from './run.mjs';

const exec = promisify(execFile);
const LIMIT = { timeout: 20 * 60_000, maxBuffer: 64 * 1024 * 1024 };

export const IMAGES = ['server', 'client', 'client-embedded'];
/** buildah, what it needs on a small system, and what makes a Debian of packages. */
const PACKAGES = [
  ...['buildah', 'crun', 'libgpgme11', 'libassuan0', 'libsubid4', 'libdevmapper1.02.1', 'libyajl2'],
  ...['golang-github-containers-common', 'golang-github-containers-image', 'debootstrap'],
];
const SUITE = 'bookworm';
const BASE_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** buildah with a store of its own below the user's cache folder, and base images in it. */
export class ImageBuilder {
  #folder = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'policysync', 'images');
  #env;

  /** Must be called in a namespace of mounts of its own. */
  static async prepare() {
    const builder = new ImageBuilder();
    await builder.#getPrograms();
    await builder.#makeBases();
    return builder;
  }

  /** Builds `policysync/<image>:local`. */
  async build(root, image) {
    const file = join(root, 'deploy', 'container', `${image}.Dockerfile`);
    const cache = join(homedir(), '.npm');
    const go = ['go/pkg/mod', '.cache/go-build'].map((path) => join(homedir(), path));
    for (const folder of [cache, ...go]) mkdirSync(folder, { recursive: true });
    const args = [
      ...['build', '--quiet', '--format', 'docker', '--layers', '--pull-never', '--file', file],
      ...['--build-arg', 'NODE_IMAGE=localhost/node', '--build-arg', 'GO_IMAGE=localhost/golang'],
      ...['--volume', `${cache}:/root/.npm`, '--volume', `${go[0]}:/go/pkg/mod`],
      ...['--volume', `${go[1]}:/root/.cache/go-build`],
    ];
    const runtime = ['--build-arg', 'RUNTIME_IMAGE=localhost/runtime'];
    console.log(`building policysync/${image}:local ...`);
    // This version of buildah does not find a stage by the value of an argument: the stage becomes an image first.
    if (image !== 'server') await this.#step(...args, '--target', 'runtime', '--tag', 'localhost/runtime', root);
    await this.#step(...args, ...(image === 'server' ? [] : runtime), '--tag', `policysync/${image}:local`, root);
  }

  /** A container of an image: its file system, mounted, and what the image says about how it runs. */
  async container(image) {
    const name = (await this.#buildah('from', '--pull-never', `localhost/policysync/${image}:local`)).trim();
    const root = (await this.#buildah('mount', name)).trim();
    const { Docker } = JSON.parse(await this.#buildah('inspect', name));
    return { root, config: Docker.config, remove: () => this.#buildah('rm', name) };
  }

  async #getPrograms() {
    const programs = join(this.#folder, 'programs');
    if (!existsSync(programs)) {
      const made = join(this.#folder, `programs-${process.pid}`);
      mkdirSync(made, { recursive: true });
      await exec('apt-get', ['download', ...PACKAGES], { ...LIMIT, cwd: made });
      for (const file of readdirSync(made)) await exec('dpkg', ['-x', file, '.'], { ...LIMIT, cwd: made });
      renameSync(made, programs);
    }
    // buildah starts itself anew without LD_LIBRARY_PATH: its libraries have to be where the system has libraries.
    const libs = join(programs, 'usr', 'lib');
    const [triplet] = readdirSync(libs).filter((name) => name.endsWith('-linux-gnu'));
    const system = join('/usr/lib', triplet);
    await exec('mount', ['-t', 'overlay', 'overlay', '-o', `lowerdir=${join(libs, triplet)}:${system}`, system]);
    const home = join(this.#folder, 'home');
    mkdirSync(join(home, '.config', 'containers'), { recursive: true });
    const policy = { default: [{ type: 'insecureAcceptAnything' }] };
    writeFileSync(join(home, '.config', 'containers', 'policy.json'), JSON.stringify(policy));
    const storage = `[storage]\ndriver = "overlay"\ngraphroot = "${this.#folder}/store"\nrunroot = "${this.#folder}/run"\n`;
    writeFileSync(join(home, 'storage.conf'), storage);
    writeFileSync(join(home, 'registries.conf'), 'unqualified-search-registries = []\n');
    this.#env = {
      ...process.env,
      HOME: home,
      BUILDAH_ISOLATION: 'chroot',
      CONTAINERS_STORAGE_CONF: join(home, 'storage.conf'),
      CONTAINERS_REGISTRIES_CONF: join(home, 'registries.conf'),
    };
  }

  /** `localhost/node` and `localhost/golang`, in place of the images of those names in a registry. */
  async #makeBases() {
    const there = (await this.#buildah('images', '--format', '{{.Name}}')).split('\n');
    if (!there.includes('localhost/node')) {
      const base = join(this.#folder, `base-${process.pid}`);
      console.log('making a Debian with Node as base image ...');
      const debootstrap = join(this.#folder, 'programs', 'usr', 'sbin', 'debootstrap');
      await exec('sh', [debootstrap, '--variant=minbase', '--include=ca-certificates', SUITE, base], {
        ...LIMIT,
        env: { ...process.env, DEBOOTSTRAP_DIR: join(this.#folder, 'programs', 'usr', 'share', 'debootstrap') },
      });
      const node = await nodeProgram('24');
      const npm = (await exec('npm', ['root', '--global'])).stdout.trim();
      cpSync(node, join(base, 'usr', 'local', 'bin', 'node'));
      cpSync(join(npm, 'npm'), join(base, 'usr', 'local', 'lib', 'node_modules', 'npm'), { recursive: true });
      symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(base, 'usr', 'local', 'bin', 'npm'));
      // Authorities that this machine trusts, such as that of a proxy.
      const authorities = '/etc/ssl/certs/ca-certificates.crt';
      if (existsSync(authorities)) cpSync(authorities, join(base, authorities), { dereference: true });
      await this.#commit(
        'scratch',
        'localhost/node',
        { '/': base },
        { PATH: BASE_PATH, NODE_EXTRA_CA_CERTS: authorities },
      );
      rmSync(base, { recursive: true });
    }
    if (!there.includes('localhost/golang')) {
      const go = (await exec('go', ['env', 'GOROOT'])).stdout.trim();
      const env = { PATH: `/usr/local/go/bin:${BASE_PATH}`, GOPATH: '/go', GOFLAGS: '-buildvcs=false' };
      await this.#commit('localhost/node', 'localhost/golang', { '/usr/local/go': go }, env);
    }
  }

  async #commit(from, image, files, env) {
    const name = (await this.#buildah('from', '--pull-never', from)).trim();
    for (const [target, source] of Object.entries(files)) await this.#buildah('copy', '--quiet', name, source, target);
    const variables = Object.entries(env).flatMap(([key, value]) => ['--env', `${key}=${value}`]);
    await this.#buildah('config', ...variables, name);
    await this.#buildah('commit', '--quiet', '--rm', name, image);
  }

  async #buildah(...args) {
    try {
      return (await exec(this.#program, args, { ...LIMIT, env: this.#env })).stdout;
    } catch (error) {
      throw new Fatal(`buildah ${args[0]} failed: ${`${error.stderr ?? error.message}`.trim()}`, { cause: error });
    }
  }

  async #step(...args) {
    const code = await run(this.#program, args, { env: this.#env, cwd: dirname(args.at(-1)) });
    if (code !== 0) throw new Fatal(`buildah ${args[0]} ended with ${code}; what it printed is above.`);
  }

  get #program() {
    return join(this.#folder, 'programs', 'usr', 'bin', 'buildah');
  }
}
