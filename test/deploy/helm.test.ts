import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import * as z from 'zod';
import { helmProgram, KUBERNETES_VERSIONS, kubernetesSchemas } from '../support/deploy-programs.js';
import { KNOWN_SETTINGS, SECRET_SETTINGS, unknownSettings } from '../support/known-settings.js';
import { type Manifest, ManifestSchemas, manifestsOf } from '../support/kubernetes-manifests.js';
import { CLIENT_SETTINGS, SERVER_SETTINGS } from '../support/library.js';
import { repoRoot } from '../support/repo.js';
import { tempDir } from '../support/temp-dir.js';

const run = promisify(execFile);
const ROOT = repoRoot();
const FOLDER = join(ROOT, 'deploy', 'helm');
const CHART = join(FOLDER, 'policysync');
const VALUE_SETS = readdirSync(join(CHART, 'ci'));

const [helm, schemas] = await Promise.all([helmProgram(), kubernetesSchemas()]);
const missing = [helm, schemas].flatMap((found) => ('missing' in found ? [found.missing] : []));
const skip = missing[0] ?? false;

/** Lets every pod ask the engine. */
const openEngine = ['--set', 'client.networkPolicy.enabled=false'];

const probe = z.looseObject({
  httpGet: z.looseObject({ path: z.string() }).optional(),
  periodSeconds: z.number().default(10),
  failureThreshold: z.number().default(3),
});
const container = z.looseObject({
  name: z.string(),
  image: z.string(),
  securityContext: z.looseObject({
    readOnlyRootFilesystem: z.literal(true),
    allowPrivilegeEscalation: z.literal(false),
    capabilities: z.object({ drop: z.tuple([z.literal('ALL')]) }),
  }),
  env: z.array(z.looseObject({ name: z.string(), value: z.string().optional() })).default([]),
  volumeMounts: z.array(z.looseObject({ name: z.string(), mountPath: z.string() })).default([]),
  startupProbe: probe.optional(),
  livenessProbe: probe.optional(),
  readinessProbe: probe.optional(),
});
const named = z.looseObject({ name: z.string() });
/** What has pods. */
const workload = z.looseObject({
  replicas: z.number().optional(),
  template: z.looseObject({
    metadata: z.looseObject({ labels: z.record(z.string(), z.string()) }),
    spec: z.looseObject({
      automountServiceAccountToken: z.literal(false),
      terminationGracePeriodSeconds: z.number(),
      securityContext: z.looseObject({
        runAsNonRoot: z.literal(true),
        runAsUser: z.number().min(10_001),
        seccompProfile: z.object({ type: z.literal('RuntimeDefault') }),
      }),
      initContainers: z.array(container).default([]),
      containers: z.array(container),
      volumes: z.array(named).default([]),
    }),
  }),
  volumeClaimTemplates: z.array(z.looseObject({ metadata: named })).default([]),
});
type Workload = z.infer<typeof workload>;

function isWorkload({ kind }: Manifest): boolean {
  return ['Deployment', 'StatefulSet', 'DaemonSet'].includes(kind);
}

async function rendered(...args: readonly string[]): Promise<Manifest[]> {
  assert('path' in helm);
  const { stdout } = await run(helm.path, ['template', 'rel', CHART, '--namespace', 'policy', ...args]);
  return manifestsOf(stdout);
}

async function refused(...args: readonly string[]): Promise<string> {
  return await rendered(...args).then(
    () => assert.fail(`${args.join(' ')} is not refused`),
    (error: { stderr: string }) => error.stderr,
  );
}

/** What a program makes of a value of its environment; throws where it refuses it. */
function readAs(program: 'server' | 'client', name: string, value: string): unknown {
  const settings = Object.values(program === 'server' ? SERVER_SETTINGS : CLIENT_SETTINGS);
  const setting = settings.find(({ env }) => env === name);
  const { success, data, error } = setting?.schema(name).safeParse(value) ?? { success: true };
  assert(success, `${name}=${value}: ${error?.message}`);
  return data;
}

/** Settings that exist, with values that they take, mounts that have a volume and volumes that are mounted, and pods that are locked down as the schema says. */
function checkPods(spec: Workload): void {
  const { containers, initContainers, volumes } = spec.template.spec;
  const all = [...initContainers, ...containers];
  for (const { image, env } of all) {
    const ours = /(?:^|\/)policysync\/(server|client)/.exec(image)?.[1];
    const names = env.map(({ name }) => name).filter((name) => name.startsWith('SYNC_'));
    if (ours === undefined) continue;
    assert.deepEqual(new Set(names).size, names.length);
    for (const name of names) assert(KNOWN_SETTINGS[ours === 'server' ? 'server' : 'client'].has(name), name);
    for (const name of names) assert(!SECRET_SETTINGS.has(name), `${name} has a secret as it is`);
    for (const { name, value = '' } of env) readAs(ours === 'server' ? 'server' : 'client', name, value);
  }
  const there = [...volumes.map(({ name }) => name), ...spec.volumeClaimTemplates.map(({ metadata }) => metadata.name)];
  const mounted = new Set(all.flatMap(({ volumeMounts }) => volumeMounts.map(({ name }) => name)));
  assert.deepEqual([...mounted].sort(), there.sort());
  // Each file that a setting names is below a mount.
  for (const { env, volumeMounts } of all) {
    for (const { name, value = '' } of env) {
      if (!/_FILE$|_PUBLIC_KEY$/.test(name)) continue;
      assert(
        volumeMounts.some(({ mountPath }) => value.startsWith(`${mountPath}/`)),
        `${name}=${value} is not mounted`,
      );
    }
  }
}

describe('the chart', { skip }, () => {
  const perVersion = KUBERNETES_VERSIONS.map((version) =>
    'path' in schemas ? new ManifestSchemas(schemas.path, version) : assert.fail(),
  );

  /** Of Prometheus, whose schema Kubernetes does not have. */
  function checkSchema(manifest: Manifest): void {
    if (manifest.kind === 'ServiceMonitor') return;
    for (const version of perVersion) assert.deepEqual(version.problems(manifest), []);
  }

  for (const file of VALUE_SETS) {
    it(`renders what Kubernetes accepts from ${file}`, async () => {
      assert('path' in helm);
      const values = ['--values', join(CHART, 'ci', file)];
      await run(helm.path, ['lint', '--strict', '--quiet', CHART, ...values]);
      const manifests = await rendered(...values);
      for (const manifest of manifests) checkSchema(manifest);
      const ids = manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
      assert.equal(new Set(ids).size, ids.length);
      const pods = manifests.filter(isWorkload).map(({ spec }) => workload.parse(spec));
      assert(pods.length > 0);
      for (const pod of pods) checkPods(pod);
      for (const { kind, spec } of manifests) {
        if (kind !== 'Service') continue;
        const { selector } = z.looseObject({ selector: z.record(z.string(), z.string()) }).parse(spec);
        const selected = pods.filter(({ template }) =>
          Object.entries(selector).every(([key, value]) => template.metadata.labels[key] === value),
        );
        assert.equal(selected.length, 1);
      }
    });
  }

  it('gives lists and maps as the settings read them, and takes false and 0 as they are', async () => {
    const manifests = await rendered('--values', join(CHART, 'ci', 'lists-values.yaml'));
    const read: Record<string, unknown> = {};
    for (const { kind, spec } of manifests.filter(isWorkload)) {
      for (const { env } of workload.parse(spec).template.spec.containers) {
        const program = kind === 'DaemonSet' ? 'client' : 'server';
        for (const { name, value = '' } of env) read[name] = readAs(program, name, value);
      }
    }
    const wanted = {
      SYNC_TRUSTED_PROXIES: ['10.0.0.0/8', '192.0.2.1'],
      SYNC_POLICY_REPO_POLICY_EXTENSIONS: ['.rego'],
      SYNC_POLICY_REPO_POLLING_INTERVAL: 0,
      SYNC_DATA_UPDATES_RETAIN_DEFAULT: 16_777_216,
      SYNC_OFFLINE_MODE_ENABLED: false,
      SYNC_DATA_TOPICS: ['policy_data', 'users'],
      SYNC_POLICY_SUBSCRIPTION_DIRS: ['apps/billing', 'shared'],
      SYNC_CLIENT_LABELS: { app: 'billing', zone: 'a' },
      SYNC_CLIENT_ID: 'billing-$(NODE_NAME)',
    };
    for (const [name, value] of Object.entries(wanted)) assert.deepEqual(read[name], value, name);
    const sources = z.looseObject({ config: z.looseObject({ entries: z.array(z.looseObject({ url: z.string() })) }) });
    assert.equal(sources.parse(read.SYNC_DATA_CONFIG_SOURCES).config.entries[0]?.url, 'https://users.example/all');
  });

  it('has names that a StatefulSet may have, however long that of the release is', async () => {
    assert('path' in helm);
    const args = ['--values', join(CHART, 'ci', 'lists-values.yaml')];
    const { stdout } = await run(helm.path, ['template', 'r'.repeat(53), CHART, ...args]);
    const names = manifestsOf(stdout).map(({ metadata }) => metadata.name);
    // A label of 63 characters has the name, a dash, and a hash of ten.
    for (const name of names) assert(name.length <= 52, name);
    assert.equal(new Set(names).size, 3);
  });

  it('lets Prometheus in: to /metrics by TLS, and past the network policies, but not to the engine', async () => {
    const manifests = await rendered('--values', join(CHART, 'ci', 'production-values.yaml'));
    const one = (kind: string, component: string): unknown =>
      manifests.find((each) => each.kind === kind && each.metadata.name === `rel-policysync-${component}`)?.spec;
    const monitor = z.looseObject({ endpoints: z.array(z.looseObject({ tlsConfig: z.unknown().optional() })) });
    const [server] = monitor.parse(one('ServiceMonitor', 'server')).endpoints;
    assert.deepEqual(server?.tlsConfig, {
      ca: { secret: { key: 'ca.crt', name: 'policysync-tls' } },
      serverName: 'rel-policysync-server.policy.svc',
    });
    assert.equal(monitor.parse(one('ServiceMonitor', 'client')).endpoints[0]?.tlsConfig, undefined);
    const policy = z.looseObject({
      ingress: z.array(z.looseObject({ ports: z.array(z.looseObject({ port: z.string() })), from: z.unknown() })),
    });
    const portsOf = (component: string): string[] =>
      policy
        .parse(one('NetworkPolicy', component))
        .ingress.filter(({ from }) => JSON.stringify(from).includes('"monitoring"'))
        .flatMap(({ ports }) => ports.map(({ port }) => port));
    assert.deepEqual([portsOf('server'), portsOf('client')], [['http'], ['api']]);
  });

  it('opens the engine to its own namespace alone, unless the values say otherwise', async () => {
    const values = ['--values', join(CHART, 'ci', 'client-only-values.yaml')];
    const policies = async (...more: string[]): Promise<unknown[]> =>
      (await rendered(...values, ...more)).flatMap(({ kind, spec }) => (kind === 'NetworkPolicy' ? [spec] : []));
    const [own, ...others] = await policies();
    assert.deepEqual(others, []);
    const label = (name: string, value: string) => ({ [`app.kubernetes.io/${name}`]: value });
    const ofClient = { ...label('name', 'policysync'), ...label('instance', 'rel'), ...label('component', 'client') };
    assert.deepEqual(own, {
      podSelector: { matchLabels: ofClient },
      policyTypes: ['Ingress'],
      ingress: [
        {
          ports: [
            { port: 'engine', protocol: 'TCP' },
            { port: 'api', protocol: 'TCP' },
          ],
          from: [{ podSelector: {} }],
        },
      ],
    });
    assert.deepEqual(await policies(...openEngine), []);
  });

  it('replaces the client of a node when its successor is ready', async () => {
    const manifests = await rendered('--values', join(CHART, 'ci', 'client-only-values.yaml'));
    const { spec } = manifests.find(({ kind }) => kind === 'DaemonSet') ?? assert.fail('no DaemonSet');
    const strategy = z.looseObject({
      updateStrategy: z.object({ rollingUpdate: z.object({ maxUnavailable: z.number(), maxSurge: z.number() }) }),
    });
    assert.deepEqual(strategy.parse(spec).updateStrategy.rollingUpdate, { maxUnavailable: 0, maxSurge: 1 });
    // Two at a time need ports of their own.
    assert.doesNotMatch(JSON.stringify(spec), /hostPort|hostNetwork/);
  });

  it('says after the installation how to call the server, by TLS too, and who reads the engine', async () => {
    assert('path' in helm);
    const { path } = helm;
    const notes = async (...args: string[]): Promise<string> => {
      const dry = ['install', 'rel', CHART, '--namespace', 'policy', '--dry-run=client'];
      const { stdout } = await run(path, [...dry, ...args]);
      return stdout.slice(stdout.indexOf('\nNOTES:'));
    };
    const plain = await notes('--values', join(CHART, 'ci', 'authentication-values.yaml'));
    assert.match(plain, /at http:\/\/localhost:7002\/ui/);
    assert.match(plain, /-- \\\n +policysync token --master-token-file \S+ --type client\n/);
    assert.match(plain, /^Those of the namespace policy may, no others/m);
    const open = await notes('--values', join(CHART, 'ci', 'client-only-values.yaml'), ...openEngine);
    assert.match(open, /^Every pod that reaches that port reads all data/m);
    const tls = await notes('--values', join(CHART, 'ci', 'production-values.yaml'));
    assert.match(tls, /at https:\/\/localhost:7002\/ui/);
    assert.match(tls, /SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE=\/run\/tls\/policysync\/ca\.crt/);
    assert.match(tls, /policysync token --server-url https:\/\/rel-policysync-server\.policy\.svc:7002 /);
    assert.doesNotMatch(tls, /Every pod|Those of the namespace/);
    // `policysync init` makes a certificate for another name, under which its clients call.
    const named = ['--set', 'client.serverUrl=https://policysync-server:7002'];
    const other = await notes('--values', join(CHART, 'ci', 'production-values.yaml'), ...named);
    assert.match(other, /policysync token --server-url https:\/\/policysync-server:7002 /);
  });

  it('renders each command and each value of docs/how-to/kubernetes.md', async () => {
    assert('path' in helm);
    const { path } = helm;
    const page = readFileSync(join(ROOT, 'docs', 'how-to', 'kubernetes.md'), 'utf8');
    const commands = [...page.matchAll(/^helm (?:install|upgrade) policysync (\S+)((?:.*\\\n)*.*)$/gm)];
    assert(commands.length >= 3);
    const render = async (args: readonly string[]): Promise<string> =>
      (await run(path, ['template', 'policysync', CHART, ...args])).stdout;
    // --reuse-values: with what the commands before have set.
    const set: string[] = [];
    await using dir = await tempDir();
    // `--values values.yaml` is the first block of YAML.
    const [, whole = ''] = /^```yaml\n(.*?)^```/ms.exec(page) ?? [];
    const valuesFile = join(dir.path, 'values.yaml');
    await writeFile(valuesFile, whole);
    const argsOf = (rest: string): string[] =>
      rest
        .split(/[\s\\]+/)
        .flatMap((word) =>
          word === '' || word === '--reuse-values' ? [] : word === 'values.yaml' ? valuesFile : word,
        );
    for (const [, chart, rest = ''] of commands) {
      assert.equal(chart, 'deploy/helm/policysync');
      const args = argsOf(rest);
      if (!rest.includes('--reuse-values')) set.length = 0;
      set.push(...args);
      const stdout = await render(set);
      for (const manifest of manifestsOf(stdout)) checkSchema(manifest);
    }
    for (const [, yaml = ''] of page.matchAll(/^```yaml\n(.*?)^```/gms)) {
      const file = join(dir.path, 'more.yaml');
      await writeFile(file, yaml);
      for (const manifest of manifestsOf(await render([...set, '--values', file]))) checkSchema(manifest);
    }
    // What sentences say to set, all of a paragraph together.
    const [, , first = ''] = commands[0] ?? [];
    const base = argsOf(first);
    const paragraphs = page
      .split(/\n\n+/)
      .map((text) => [...text.matchAll(/`(?:--set )?([a-z]\w*(?:\.\w+)+=[^`\s]+)`/g)]);
    const said = paragraphs.map((found) => found.flatMap(([, value = '']) => ['--set', value]));
    assert(said.flat().length >= 6);
    for (const values of said) await render([...base, ...values]);
  });

  it('asks for liveness and readiness at different places, and gives the drain its time', async () => {
    const manifests = await rendered('--values', join(CHART, 'ci', 'production-values.yaml'));
    const pods = manifests.filter(isWorkload).map(({ spec }) => workload.parse(spec).template.spec);
    assert.equal(pods.length, 2);
    const paths = pods.flatMap(({ containers }) =>
      containers.map(({ livenessProbe, readinessProbe }) => [
        livenessProbe?.httpGet?.path,
        readinessProbe?.httpGet?.path,
      ]),
    );
    assert.deepEqual(paths.sort(), [
      ['/healthcheck', '/ready'],
      ['/live', '/ready'],
    ]);
    for (const { containers, terminationGracePeriodSeconds } of pods) {
      const env = new Map(
        containers.flatMap((each) => each.env.map(({ name, value }) => [name, Number(value)] as const)),
      );
      const drain = (env.get('SYNC_DRAIN_DELAY') ?? 0) + (env.get('SYNC_DRAIN_SPREAD') ?? 0);
      assert(terminationGracePeriodSeconds >= drain + 10, `${terminationGracePeriodSeconds} s for ${drain} s`);
    }
  });

  it('has one server with a volume, or several on a backbone', async () => {
    const one = await rendered('--values', join(CHART, 'ci', 'minimal-values.yaml'));
    assert.deepEqual(one.map(({ kind }) => kind).sort(), ['Service', 'ServiceAccount', 'StatefulSet']);
    const several = await rendered('--values', join(CHART, 'ci', 'production-values.yaml'));
    const kinds = several.filter(({ metadata }) => metadata.name.endsWith('-server')).map(({ kind }) => kind);
    const wanted = ['Deployment', 'Ingress', 'NetworkPolicy', 'PodDisruptionBudget', 'Service', 'ServiceMonitor'];
    assert.deepEqual(kinds.sort(), wanted);
  });

  const repository = ['--set', 'server.policyRepo.url=https://git.example/x'];
  const open = ['--set', 'authentication.enabled=false'];
  const WITH_TOKEN = {
    config: { entries: [{ url: 'https://users.example', config: { headers: { Authorization: 'Bearer hush' } } }] },
  };
  const REFUSED: Readonly<Record<string, readonly [readonly string[], RegExp]>> = {
    'authentication without a secret': [repository, /no default keys: name a secret/],
    'a client without its token': [
      [...repository, '--set', 'authentication.existingSecret=x,client.enabled=true'],
      /client\.existingSecret/,
    ],
    'several servers without a backbone': [
      [...repository, ...open, '--set', 'server.replicas=2'],
      /a log that they share/,
    ],
    'no policy source': [open, /server\.policyRepo\.url/],
    'a client without a server': [[...open, '--set', 'server.enabled=false,client.enabled=true'], /client\.serverUrl/],
    'metrics that Prometheus may not read': [
      [...repository, '--set', 'authentication.existingSecret=x,server.serviceMonitor.enabled=true'],
      /tokenSecret/,
    ],
    'metrics that ask for a certificate that Prometheus does not have': [
      [
        ...[...repository, ...open, '--set', 'server.serviceMonitor.enabled=true'],
        ...['--set', 'server.tls.existingSecret=x,server.tls.clientCertificates=true'],
      ],
      /server\.serviceMonitor\.tlsConfig/,
    ],
    'metrics that Prometheus could not reach': [
      [...repository, ...open, '--set', 'client.enabled=true,client.serviceMonitor.enabled=true'],
      /client\.networkPolicy\.metricsFrom/,
    ],
    'a value that there is not': [[...repository, ...open, '--set', 'server.replica=2'], /replica/],
    'a secret as a plain setting': [
      [...repository, ...open, '--set', 'server.settings.SYNC_AUTH_MASTER_TOKEN=x'],
      /server\.settings\.SYNC_AUTH_MASTER_TOKEN is a secret.*name that in server\.secretSettings as \{ setting: SYNC_AUTH_MASTER_TOKEN,/,
    ],
    'a secret of a client as a plain setting': [
      [...repository, ...open, '--set', 'client.settings.SYNC_POLICY_STORE_AUTH_TOKEN=x'],
      /client\.settings\.SYNC_POLICY_STORE_AUTH_TOKEN is a secret.*client\.secretSettings/,
    ],
    'a secret as a plain variable': [
      [...repository, ...open, '--set', 'client.extraEnv[0].name=SYNC_CLIENT_TOKEN,client.extraEnv[0].value=x'],
      /SYNC_CLIENT_TOKEN in client\.extraEnv is a secret/,
    ],
    'a password in the address of the repository': [
      [...open, '--set', 'server.policyRepo.url=https://me:hush@git.example/x'],
      /server\.policyRepo\.url has a password .*server\.extraEnv as \{ name: SYNC_POLICY_REPO_URL/,
    ],
    'a header with a token among data sources': [
      [...repository, ...open, '--set-json', `server.settings.SYNC_DATA_CONFIG_SOURCES=${JSON.stringify(WITH_TOKEN)}`],
      /server\.settings\.SYNC_DATA_CONFIG_SOURCES has a password or a token inside/,
    ],
    'a header with a token in a variable': [
      [
        ...[...repository, ...open, '--set-json'],
        `server.extraEnv=${JSON.stringify([{ name: 'SYNC_DATA_CONFIG_SOURCES', value: JSON.stringify(WITH_TOKEN) }])}`,
      ],
      /SYNC_DATA_CONFIG_SOURCES in server\.extraEnv has a password or a token inside/,
    ],
    'a secret setting that the chart has': [
      [
        ...[...repository, '--set', 'authentication.existingSecret=x', '--set-json'],
        'server.secretSettings=[{"setting":"SYNC_AUTH_MASTER_TOKEN","secret":"y","key":"z"}]',
      ],
      /server\.secretSettings names SYNC_AUTH_MASTER_TOKEN, which the chart takes from an existingSecret/,
    ],
    'a setting that there is not': [
      [...repository, ...open, '--set', 'server.settings.SYNC_POLICY_REPO_URI=x'],
      /server\/settings.*SYNC_POLICY_REPO_URI/,
    ],
    'a setting of the other program': [
      [...repository, ...open, '--set', 'server.settings.SYNC_DATA_TOPICS=x'],
      /server\/settings.*SYNC_DATA_TOPICS/,
    ],
    'a value that a setting does not take': [
      [...repository, ...open, '--set', 'server.settings.SYNC_POLICY_GATE=strict'],
      /server\/settings\/SYNC_POLICY_GATE.*must be one of 'on', 'warn', 'off'/s,
    ],
    'a number that a setting does not take': [
      [...repository, ...open, '--set', 'client.settings.SYNC_FETCHING_WORKER_COUNT=0'],
      /client\/settings\/SYNC_FETCHING_WORKER_COUNT/,
    ],
    'data sources of another form': [
      [
        ...repository,
        ...open,
        '--set-json',
        'server.settings.SYNC_DATA_CONFIG_SOURCES={"config":{"entries":[{"topics":["x"]}]}}',
      ],
      /server\/settings\/SYNC_DATA_CONFIG_SOURCES.*url/s,
    ],
    'a setting that the chart makes of another value': [
      [...repository, ...open, '--set', 'server.settings.SYNC_DRAIN_DELAY=7'],
      /server\.settings\.SYNC_DRAIN_DELAY is what the chart sets itself: set server\.drain\.delay/,
    ],
    'HTTPS by settings, of which the probes know nothing': [
      [...repository, ...open, '--set', 'server.settings.SYNC_SERVER_TLS_CERT_FILE=/x'],
      /name the secret of the certificate in server\.tls\.existingSecret/,
    ],
    'certificates of callers without one of the server': [
      [...repository, ...open, '--set', 'server.tls.clientCertificates=true'],
      /server\.tls\.clientCertificates .* name a secret with tls\.crt, tls\.key and ca\.crt in server\.tls\.existingSecret/,
    ],
    'HTTPS for Prometheus without a certificate': [
      [...repository, ...open, '--set', 'server.serviceMonitor.tlsConfig.serverName=x'],
      /server\.serviceMonitor\.tlsConfig is for HTTPS, and the server has no certificate/,
    ],
    'a client without the certificate that its server asks for': [
      [
        ...[...repository, ...open, '--set', 'server.tls.existingSecret=x,server.tls.clientCertificates=true'],
        ...['--set', 'client.enabled=true'],
      ],
      /client\.settings\.SYNC_CLIENT_TLS_CERT_FILE/,
    ],
    'an authority that is not named': [
      [
        ...[...repository, ...open, '--set', 'client.enabled=true'],
        ...['--set', 'client.settings.SYNC_CLIENT_SELF_SIGNED_CERTIFICATES_ALLOWED=true'],
      ],
      /SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE/,
    ],
    'an ingress for no host': [[...repository, ...open, '--set', 'server.ingress.enabled=true'], /hosts/],
  };
  for (const [what, [args, message]] of Object.entries(REFUSED)) {
    it(`refuses ${what}`, async () => {
      const words = await refused(...args);
      assert.match(words, message);
      assert.doesNotMatch(words, /hush/);
    });
  }

  it('has a client as sidecar, as an example that Kubernetes accepts', () => {
    const [deployment, ...more] = manifestsOf(readFileSync(join(FOLDER, 'sidecar.yaml'), 'utf8'));
    assert(deployment !== undefined && more.length === 0);
    checkSchema(deployment);
    const pod = workload.parse(deployment.spec);
    checkPods(pod);
    // A server or a first policy that is missing restarts nothing (docs/how-to/kubernetes.md).
    for (const { name, startupProbe } of pod.template.spec.initContainers) {
      assert(startupProbe !== undefined, name);
      const seconds = startupProbe.periodSeconds * startupProbe.failureThreshold;
      assert(
        startupProbe.httpGet?.path === '/live' || seconds > 30 * 86_400,
        `${name} is restarted after ${seconds} s`,
      );
    }
  });
});

describe('the files of the chart', () => {
  it('name settings that exist', () => {
    for (const file of readdirSync(CHART, { recursive: true, encoding: 'utf8' })) {
      if (!/\.(yaml|tpl|txt|json)$/.test(file)) continue;
      assert.deepEqual(unknownSettings(readFileSync(join(CHART, file), 'utf8')), [], file);
    }
  });

  it('have the version of the package', () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
    const chart = z
      .looseObject({ version: z.string(), appVersion: z.string(), kubeVersion: z.string() })
      .parse(parse(readFileSync(join(CHART, 'Chart.yaml'), 'utf8')));
    assert.deepEqual([chart.version, chart.appVersion], [version, version]);
    // The oldest Kubernetes that the chart asks for is the oldest one that it is checked against.
    assert.equal(chart.kubeVersion, `>=${KUBERNETES_VERSIONS[0]}-0`);
    const [oldest] = /^\d+\.\d+/.exec(KUBERNETES_VERSIONS[0]) ?? [];
    assert(
      readFileSync(join(ROOT, 'docs', 'how-to', 'kubernetes.md'), 'utf8').includes(`Kubernetes ${oldest} or newer`),
    );
    assert.match(
      readFileSync(join(FOLDER, 'sidecar.yaml'), 'utf8'),
      new RegExp(`policysync/client-embedded:${version}$`, 'm'),
    );
  });
});

describe('a machine without helm and Go', () => {
  it('is an error with SYNC_TEST_PROGRAMS=all, and skips the tests of the chart without it', async () => {
    await using empty = await tempDir();
    const names = ['PATH', 'XDG_CACHE_HOME', 'SYNC_TEST_PROGRAMS'] as const;
    const kept = names.map((name) => [name, process.env[name]] as const);
    try {
      Object.assign(process.env, { PATH: empty.path, XDG_CACHE_HOME: empty.path, SYNC_TEST_PROGRAMS: 'all' });
      await assert.rejects(helmProgram(), /there is no Go to build helm/);
      await assert.rejects(kubernetesSchemas(), /there is no python3/);
      delete process.env.SYNC_TEST_PROGRAMS;
      for (const found of [await helmProgram(), await kubernetesSchemas()]) {
        assert('missing' in found);
        assert.match(found.missing, /SYNC_TEST_PROGRAMS=all npm test$/);
      }
    } finally {
      for (const [name, value] of kept) {
        if (value === undefined) delete process.env[name];
        else process.env[name] = value;
      }
    }
  });
});
