import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { type Copy, type Dockerfile, DockerfileParser, type Env, type From } from 'dockerfile-ast';
import { OPA_VERSION } from '../../src/client/engine/get-opa/opa-version.js';
import { hadolintProgram } from '../support/deploy-programs.js';
import { KNOWN_SETTINGS } from '../support/known-settings.js';
import { repoRoot } from '../support/repo.js';

const run = promisify(execFile);
const ROOT = repoRoot();
const FOLDER = join(ROOT, 'deploy', 'container');
const FILES = readdirSync(FOLDER).filter((name) => name.endsWith('.Dockerfile'));

const hadolint = await hadolintProgram();

function parsed(name: string): Dockerfile {
  return DockerfileParser.parse(readFileSync(join(FOLDER, name), 'utf8'));
}

/** Defaults of the arguments before the first FROM. */
function imageArguments(file: Dockerfile): ReadonlyMap<string, string> {
  const properties = file.getInitialARGs().map((arg) => arg.getProperty());
  return new Map(properties.map((property) => [property?.getName() ?? '', property?.getValue() ?? '']));
}

/** Those of the last stage, which make the image. */
function ofLastStage(file: Dockerfile, keyword: string) {
  const last = file.getFROMs().at(-1)?.getRange().start.line ?? 0;
  return file.getInstructions().filter((each) => each.getKeyword() === keyword && each.getRange().start.line > last);
}

function textOf(file: Dockerfile, keyword: string): string {
  return ofLastStage(file, keyword)
    .map((each) => each.getArgumentsContent() ?? '')
    .join('\n');
}

assert.deepEqual(FILES.sort(), ['client-embedded.Dockerfile', 'client.Dockerfile', 'server.Dockerfile']);

for (const name of FILES) {
  describe(name, () => {
    const file = parsed(name);
    const program = name.startsWith('server') ? 'server' : 'client';

    it('has nothing that hadolint objects to', { skip: 'missing' in hadolint && hadolint.missing }, async () => {
      assert('path' in hadolint);
      await run(hadolint.path, ['--no-color', '--failure-threshold', 'style', join(FOLDER, name)]);
    });

    it('stands on arguments and its own stages, and names no registry', () => {
      const images = imageArguments(file);
      const stages = new Set(['scratch']);
      for (const from of file.getFROMs()) {
        const image = from.getImage() ?? '';
        const argument = /^\$\{(\w+)\}$/.exec(image)?.[1];
        const base = argument === undefined ? image : (images.get(argument) ?? '');
        assert(argument !== undefined || stages.has(base), `FROM ${image} is neither an argument nor a stage`);
        if (!stages.has(base)) assert.match(base, /^[a-z]+:[\w-]+(?:\.[\w-]+)*$/, `${image} is ${base}`);
        stages.add(from.getBuildStage() ?? '');
      }
    });

    it('copies what is there, from stages that are there', () => {
      const stages = new Set<string>();
      for (const each of file.getInstructions()) {
        if (each.getKeyword() === 'FROM') stages.add((each as From).getBuildStage() ?? '');
        if (each.getKeyword() !== 'COPY') continue;
        const copy = each as Copy;
        const from = copy.getFromFlag()?.getValue();
        if (from !== undefined) assert(stages.has(from ?? ''), `COPY --from=${from}: there is no such stage above`);
        const sources = copy.getArguments().slice(0, -1);
        assert(sources.length > 0);
        if (from !== undefined) continue;
        for (const source of sources) assert(existsSync(join(ROOT, source.getValue())), `${source} is not there`);
      }
    });

    it('runs as a user with a number above 10,000, who owns nothing but its state', () => {
      assert.match(textOf(file, 'USER'), /^[1-9]\d{4,}:[1-9]\d{4,}$/);
      assert.equal(textOf(file, 'VOLUME'), '["/var/lib/policysync", "/tmp"]');
    });

    it('checks its health without a shell, and starts without one', () => {
      const [, command = ''] = textOf(file, 'HEALTHCHECK').split(/\bCMD\s+/);
      const words = JSON.parse(command) as string[];
      assert.deepEqual(words.slice(-2), ['healthcheck', program]);
      const entry = JSON.parse(textOf(file, 'ENTRYPOINT')) as string[];
      // The same program as the entry point, without what starts it.
      assert.equal(words.slice(0, -2).join(' '), entry.slice(entry[0] === 'tini' ? 2 : 0).join(' '));
      assert.deepEqual(JSON.parse(textOf(file, 'CMD')), [program]);
    });

    it('sets addresses that can be reached from outside, by settings that exist', () => {
      const environment = ofLastStage(file, 'ENV').flatMap((each) => (each as Env).getProperties());
      const values = new Map(environment.map((property) => [property.getName(), property.getValue() ?? '']));
      for (const key of values.keys()) assert(!key.startsWith('SYNC_') || KNOWN_SETTINGS[program].has(key), key);
      const host = program === 'server' ? 'SYNC_SERVER_HOST' : 'SYNC_CLIENT_API_SERVER_HOST';
      assert.equal(values.get(host), '0.0.0.0');
      if (program === 'client') {
        assert.deepEqual(JSON.parse(values.get('SYNC_INLINE_ENGINE_CONFIG') ?? ''), { addr: '0.0.0.0:8181' });
      }
    });

    it('has the labels of the OCI, and a list of what is inside', () => {
      const labels = textOf(file, 'LABEL');
      for (const key of ['title', 'version', 'revision', 'created', 'source', 'licenses'])
        assert.match(labels, new RegExp(`org\\.opencontainers\\.image\\.${key}=`));
      assert.match(readFileSync(join(FOLDER, name), 'utf8'), /npm sbom --sbom-format=cyclonedx/);
    });
  });
}

describe('the container files together', () => {
  it('build the package the same way', () => {
    const stages = FILES.map((name) => {
      const text = readFileSync(join(FOLDER, name), 'utf8');
      return /^FROM \$\{NODE_IMAGE\} AS app\n(?:.+\n)+/m.exec(text)?.[0];
    });
    assert(stages[0]?.includes('install-for-image.mjs /opt/policysync'));
    assert.deepEqual(new Set(stages).size, 1);
    const runtimes = FILES.filter((name) => name.startsWith('client')).map((name) => {
      const text = readFileSync(join(FOLDER, name), 'utf8');
      return text.slice(text.indexOf('# A file system with Node'), text.indexOf('# hadolint ignore=DL3006'));
    });
    assert.equal(new Set(runtimes).size, 1);
  });

  it('build the OPA that is pinned, with its sum, by the Go that it needs', () => {
    const text = readFileSync(join(FOLDER, 'client.Dockerfile'), 'utf8');
    assert.equal(/^ARG OPA_VERSION=(.+)$/m.exec(text)?.[1], OPA_VERSION);
    const sums = readFileSync(join(ROOT, 'engine', 'go.sum'), 'utf8');
    const sum = new RegExp(`^github\\.com/open-policy-agent/opa v${OPA_VERSION} (h1:.+)$`, 'm').exec(sums)?.[1];
    assert.equal(/^ARG OPA_SUM=(.+)$/m.exec(text)?.[1], sum);
    const go = /^go (\d+\.\d+)/m.exec(readFileSync(join(ROOT, 'engine', 'go.mod'), 'utf8'))?.[1];
    assert.match(text, new RegExp(`^ARG GO_IMAGE=golang:${go}-`, 'm'));
  });

  it('get every file of the package into the build, and no secret', () => {
    const { files } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { files: string[] };
    const lines = readFileSync(join(ROOT, '.dockerignore'), 'utf8').split('\n');
    const allowed = lines.filter((line) => line.startsWith('!')).map((line) => line.slice(1));
    const sources = files.filter((file) => file !== 'dist' && !file.startsWith('!'));
    const missing = sources.filter((file) => !allowed.some((one) => one === file || file.startsWith(`${one}/`)));
    assert.deepEqual(missing, []);
    assert(lines.indexOf('*') < lines.findIndex((line) => line.startsWith('!')));
    const last = lines.findLastIndex((line) => line.startsWith('!'));
    for (const secret of ['**/.env', '**/*.key', '**/*.pem', 'deploy/compose/secrets/*'])
      assert(lines.indexOf(secret) > last, `${secret} is not left out`);
  });

  it('stand on the newest long-term Node that is supported', () => {
    const { engines } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { engines: { node: string } };
    const newest = /^(\d+)/.exec(engines.node)?.[1];
    for (const name of FILES)
      assert.match(imageArguments(parsed(name)).get('NODE_IMAGE') ?? '', new RegExp(`^node:${newest}-`));
  });
});
