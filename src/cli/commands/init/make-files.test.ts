import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { parse, parseAllDocuments } from 'yaml';
import { SyncError } from '../../../lib/errors.js';
import { YamlDocument } from '../../../lib/json/yaml-document.js';
import { packageVersion } from '../../../lib/run/version.js';
import { parseConfigFile } from '../../../lib/settings/config-file.js';
import { SECTIONS } from '../../../settings.js';
import { composeFile } from './compose.js';
import type { NewFile } from './files.js';
import { kubernetesFiles } from './kubernetes.js';
import { makeFiles } from './make-files.js';
import { type Asker, type InitOptions, isAddress, makePlan, missingOptions, type Plan } from './plan.js';
import { scalar, settingsFile } from './settings-file.js';
import { systemdFiles } from './systemd.js';
import { targetLines } from './target-lines.js';

const PLAN: Plan = {
  mode: 'network',
  repository: 'https://git.example/policies.git',
  branch: 'main',
  sshKey: undefined,
  serverName: 'sync.example',
  port: 7002,
  clientPort: 7000,
  enginePort: 8181,
  tls: 'trial',
  targets: [],
  registry: undefined,
  tokenSeconds: 60,
  warnings: [],
};
const GIVEN: InitOptions = { repository: '/r', port: '1', clientPort: '2', enginePort: '3', tokenTtl: '30d' };
const STYLE = { schema: 's.json', secrets: true, state: true } as const;

describe('the files of init', () => {
  it('the configuration file has known keys alone, whatever the plan', () => {
    for (const plan of [
      PLAN,
      { ...PLAN, mode: 'local', tls: 'none', repository: 'git@host:a/b.git' } as const,
      { ...PLAN, tls: 'none', sshKey: '/home/x/a key', branch: 'on', serverName: '::1' } as const,
    ]) {
      const sections = parseConfigFile(settingsFile(plan, STYLE), 'policysync.yaml', SECTIONS);
      assert.equal(sections.get('server')?.values.get('policy-repo-url')?.value, plan.repository);
      assert.equal(sections.get('server')?.values.get('policy-repo-main-branch')?.value, plan.branch);
      assert.equal(sections.get('client')?.values.has('client-token-file'), plan.mode === 'network');
      assert.equal(sections.get('client')?.values.has('client-token'), false);
    }
  });

  it('the client goes to the server by its name', () => {
    assert.match(settingsFile(PLAN, STYLE), /^ {2}server-url: https:\/\/sync\.example:7002$/m);
    assert.match(settingsFile({ ...PLAN, tls: 'none' }, STYLE), /^ {2}server-url: http:\/\/sync\.example:7002$/m);
    assert.match(settingsFile({ ...PLAN, tls: 'none' }, STYLE), /^ {2}# server-tls-cert-file: /m);
  });

  it('scalars mean the same text', () => {
    for (const text of ['on', 'true', '1.10', 'a: b', '# x', '- x', '"', 'a\nb', '', ' x', '@x', '0x1', '*a', 'a #b']) {
      const document = new YamlDocument(`k: ${scalar(text)}\n`);
      const [member] = document.members(document.root(), 'it');
      assert.ok(member);
      assert.equal(document.scalar(member.value) ?? '', text);
    }
    assert.equal(scalar('/a/b.pem'), '/a/b.pem');
  });

  it('the Compose file names each secret that a service uses, and only files of the folder', () => {
    const { text } = composeFile({ ...PLAN, repository: '/srv/policies' }, { uid: 1000, gid: 1001 });
    const [services = '', secrets = ''] = text.split(/^secrets:$/m);
    const used = new Set(
      [...services.matchAll(/^ {4}secrets: \[(.*)\]$/gm)].flatMap(([, list = '']) => list.split(', ')),
    );
    const named = [...secrets.matchAll(/^ {2}([\w-]+): \{ file: \.\/secrets\//gm)].map(([, name]) => name ?? '');
    assert.deepEqual([...used].sort(), named.sort());
    assert.match(text, /user: "1000:1001"/);
    for (const [, name = ''] of text.matchAll(/\/run\/secrets\/([\w-]+)/g)) assert.ok(used.has(name), name);
    assert.match(composeFile(PLAN, { uid: 0, gid: 0 }).text, /chown -R 10001:10001/);
    assert.doesNotMatch(composeFile({ ...PLAN, mode: 'local', tls: 'none' }, { uid: 1, gid: 1 }).text, /secrets/);
  });

  it('the Compose file mounts a folder of any name', () => {
    const { text } = composeFile({ ...PLAN, repository: '/srv/a:b $HOME', sshKey: '/k/$1' }, { uid: 1, gid: 1 });
    const { services, secrets } = parse(text) as {
      services: { server: { volumes: unknown[] } };
      secrets: Record<string, { file: string }>;
    };
    const source = '/srv/a:b $$HOME'; // Compose replaces what stands after a single $
    assert.deepEqual(services.server.volumes.at(-1), { type: 'bind', source, target: '/policies', read_only: true });
    assert.equal(secrets['ssh-key']?.file, '/k/$$1');
  });
});

describe('the images of init', () => {
  const plan = { ...PLAN, targets: ['compose', 'kubernetes', 'systemd'] } as const;
  const version = packageVersion();

  it('are built and pushed under the names that the files have', () => {
    for (const registry of [undefined, 'registry.example:5000/team']) {
      const printed = targetLines({ ...plan, registry }, { isRoot: false });
      const { text } = composeFile({ ...plan, registry }, { uid: 1, gid: 1 });
      const { services } = parse(text) as { services: Record<string, { image: string }> };
      for (const [name, { image }] of Object.entries(services)) {
        const tag = image.replaceAll(/\$\{POLICYSYNC_[A-Z]+:-([^}]*)\}/g, '$1');
        assert.equal(tag, `${registry === undefined ? '' : `${registry}/`}policysync/${name}:${version}`);
        assert.ok(printed.includes(`  docker build -f deploy/container/${name}.Dockerfile -t ${tag} .`), tag);
        assert.equal(printed.includes(`  docker push ${tag}`), registry !== undefined);
      }
    }
  });

  it('belong to the user who has to own what root wrote', () => {
    const chown = '  chown -R 10001:10001 secrets state';
    assert.ok(targetLines(plan, { isRoot: true }).includes(chown));
    assert.ok(!targetLines(plan, { isRoot: false }).includes(chown));
    assert.deepEqual(targetLines(PLAN, { isRoot: true }), []);
  });
});

describe('the units of init', () => {
  it('have absolute paths, the secrets as credentials, and a script that installs just these files', async () => {
    const files = await systemdFiles(PLAN, { command: ['/usr/bin/node', '/opt/policysync.js'], schema: 's.json' });
    const textOf = (path: string): string => files.find((file) => file.path === path)?.text ?? assert.fail(path);
    const server = textOf('systemd/policysync-server.service');
    assert.match(server, /^ExecStart=\/usr\/bin\/node \/opt\/policysync\.js server$/m);
    const settings = textOf('systemd/policysync.yaml');
    assert.match(settings, /^ {2}auth-public-key: \/etc\/policysync\/auth-public-key\.pem$/m);
    assert.doesNotMatch(settings, /private-key|state-dir|token/);
    parseConfigFile(settings, 'policysync.yaml', SECTIONS);
    const dropIn = textOf('systemd/policysync-server.service.d/credentials.conf');
    assert.match(dropIn, /^Environment=SYNC_SERVER_TLS_KEY_FILE=%d\/server-tls-key$/m);
    const script = textOf('systemd/install.sh');
    for (const [, name = ''] of dropIn.matchAll(/\/credentials\/(\S+)$/gm))
      assert.ok(script.includes(`/credentials/${name}\n`));
    const { status, stderr } = spawnSync('sh', ['-n'], { input: script, encoding: 'utf8' });
    assert.equal(status, 0, stderr);
  });
});

describe('the command of a unit', () => {
  it('is what systemd runs, wherever the package is', async () => {
    const command = ['/opt/no $de/node', '/srv/100%/$HOME $& "x"/policysync.js'];
    const files = await systemdFiles(PLAN, { command, schema: 's.json' });
    const line = files.find(({ path }) => path === 'systemd/policysync-server.service')?.text.match(/^ExecStart=.*$/m);
    assert.equal(line?.[0], 'ExecStart="/opt/no $de/node" "/srv/100%%/$$HOME $$& \\"x\\"/policysync.js" server');
  });
});

describe('a token in the address of the repository', () => {
  const plan = { ...PLAN, mode: 'local', tls: 'none', repository: "https://bob:s3'cret@git.example/p.git" } as const;

  it('is in files that only their owner may read', async () => {
    const files = [
      ...(await makeFiles({ ...plan, targets: ['kubernetes', 'systemd', 'compose'] }, { env: {}, schema: 's.json' })),
    ];
    const open = files.filter(({ text, mode }) => text.includes('cret@') && mode !== 0o600);
    assert.deepEqual(
      open.map(({ path }) => path),
      [],
    );
    const textOf = (path: string): string => files.find((file) => file.path === path)?.text ?? assert.fail(path);
    assert.equal(textOf('systemd/server.env'), "SYNC_POLICY_REPO_URL='https://bob:s3%27cret@git.example/p.git'\n");
    assert.match(textOf('systemd/install.sh'), /^ {2}install -m 0600 server\.env \/etc\/policysync\/server\.env$/m);
  });

  it('is not in a message', async () => {
    const lookUp = async () => ({ head: undefined, branches: ['a', 'b'] });
    const given = { ...GIVEN, repository: plan.repository };
    await assert.rejects(makePlan(given, undefined, lookUp), ({ message }: Error) => !message.includes('cret@'));
  });
});

describe('the Kubernetes files of init', () => {
  const secret = (path: string, text: string): NewFile => ({ path, text, mode: 0o600 });

  it('values name secrets, which the manifest has with the text of the files', async () => {
    const made = [
      secret('secrets/auth-private-key.pem', '-----BEGIN\nx: "y"\n'),
      secret('secrets/client-token', 'a.b.c\n'),
      secret('secrets/tls/server.pem', 'cert'),
    ];
    const [values, secrets] = await kubernetesFiles(PLAN, made);
    const { authentication, server, client } = parse(values?.text ?? '') as Record<string, Record<string, unknown>>;
    assert.deepEqual(authentication, { existingSecret: 'policysync' });
    assert.deepEqual(server?.policyRepo, { url: PLAN.repository, branch: 'main' });
    assert.equal(client?.serverUrl, 'https://policysync-server:7002');
    assert.ok(secrets?.mode === 0o600 && !values?.text.includes('BEGIN'));
    const found = parseAllDocuments(secrets.text).map(
      (one) => one.toJS() as { metadata: { name: string }; stringData: object },
    );
    assert.deepEqual(
      found.map(({ metadata, stringData }) => [metadata.name, stringData]),
      [
        ['policysync', { 'auth-private-key': '-----BEGIN\nx: "y"\n' }],
        ['policysync-client', { 'client-token': 'a.b.c\n' }],
        ['policysync-tls', { 'tls.crt': 'cert' }],
      ],
    );
  });

  it('say where the images are, or that it must be set, and how the chart is installed', async () => {
    const textOf = async (plan: Plan): Promise<string> => (await kubernetesFiles(plan, []))[0]?.text ?? '';
    const known = await textOf({ ...PLAN, registry: 'registry.example/team' });
    assert.deepEqual((parse(known) as { image: unknown }).image, { registry: 'registry.example/team' });
    assert.match(await textOf(PLAN), /^image:\n {2}# Set this: .*\n {2}registry: ""$/m);
    const [, chart = ''] = /helm install policysync (\S+) -f kubernetes-values\.yaml/.exec(known) ?? [];
    assert.ok(existsSync(join(chart, 'Chart.yaml')), chart);
  });

  it('need a repository that a cluster reaches', async () => {
    await assert.rejects(kubernetesFiles({ ...PLAN, repository: '/srv/x' }, []), /a cluster does not reach \/srv\/x/);
    const [values, none] = await kubernetesFiles({ ...PLAN, mode: 'local', tls: 'none' }, []);
    assert.equal(none, undefined);
    assert.match(values?.text ?? '', /^ {2}enabled: false$/m);
  });
});

describe('the plan of init', () => {
  const lookUp = async () => ({ head: 'main', branches: ['a', 'main'] });

  it('takes the branch of HEAD, and defaults for the rest', async () => {
    const plan = await makePlan(GIVEN, undefined, lookUp);
    assert.deepEqual([plan.branch, plan.mode, plan.tls, plan.serverName], ['main', 'local', 'none', 'localhost']);
    assert.equal((await makePlan({ ...GIVEN, branch: 'a' }, undefined, lookUp)).branch, 'a');
    const { sshKey } = await makePlan({ ...GIVEN, sshKey: '~/.ssh/deploy' }, undefined, lookUp);
    assert.equal(sshKey, join(homedir(), '.ssh', 'deploy'));
    const none = async () => ({ head: undefined, branches: ['a', 'b'] });
    await assert.rejects(makePlan(GIVEN, undefined, none), /it has a, b.*give --branch/);
    const registry = async (text: string) => (await makePlan({ ...GIVEN, registry: text }, undefined, lookUp)).registry;
    assert.deepEqual([await registry('r.example:5000/a/'), await registry(' ')], ['r.example:5000/a', undefined]);
    await assert.rejects(registry('https://r.example'), /--registry must be a host/);
    await assert.rejects(makePlan({ ...GIVEN, port: '0' }, undefined, lookUp), /--port must be a port/);
  });

  it('warns of a branch that is not there, and of a repository that does not answer while a branch is given', async () => {
    assert.deepEqual((await makePlan({ ...GIVEN, branch: 'a' }, undefined, lookUp)).warnings, []);
    const { branch, warnings } = await makePlan({ ...GIVEN, branch: 'x' }, undefined, lookUp);
    assert.equal(branch, 'x');
    assert.deepEqual(warnings, ['branch x does not exist in /r, it has a, main: push it, or give --branch main.']);
    const silent = () => Promise.reject(new SyncError('git_failed', 'no answer'));
    const plan = await makePlan({ ...GIVEN, branch: 'x' }, undefined, silent);
    assert.deepEqual(plan.warnings, ['no answer; `doctor server` asks it again.']);
    await assert.rejects(makePlan(GIVEN, undefined, silent), /no answer/);
  });

  it('asks again for a repository that does not answer, before it asks anything else', async () => {
    const { repository: _, ...rest } = GIVEN;
    const heard: (string | undefined)[] = [];
    const asker: Asker = {
      repository: async (problem) => (heard.push(problem) === 1 ? '/mistyped' : '/r'),
      mode: async () => 'local',
      branch: async (head) => head ?? '',
      tls: async () => 'none',
      targets: async () => [],
      registry: async () => '',
    };
    const asked = async (question: { repository: string }) => {
      if (question.repository === '/r') return lookUp();
      throw new SyncError('git_failed', 'no repository');
    };
    const plan = await makePlan(rest, asker, asked);
    assert.deepEqual([plan.repository, plan.branch, heard], ['/r', 'main', [undefined, 'no repository']]);
    await assert.rejects(makePlan({ ...rest, repository: '/mistyped' }, asker, asked), /no repository/);
  });

  it('knows addresses from paths, and what must be given', () => {
    for (const address of ['https://h/x', 'git@h:x', 'ssh://h/x', 'file:///x']) assert.ok(isAddress(address), address);
    for (const path of ['/x', '../x', 'x', './a:b']) assert.ok(!isAddress(path), path);
    assert.equal(missingOptions({ ...GIVEN, yes: true }).length, 0);
    assert.equal(missingOptions(GIVEN).length, 1);
  });
});
