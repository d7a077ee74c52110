import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import * as z from 'zod';
import { helmProgram, KUBERNETES_VERSIONS, kubernetesSchemas } from '../support/deploy-programs.js';
import { KNOWN_SETTINGS, SECRET_SETTINGS, unknownSettings } from '../support/known-settings.js';
import { type Manifest, ManifestSchemas, manifestsOf } from '../support/kubernetes-manifests.js';
import { repoRoot } from '../support/repo.js';

const run = promisify(execFile);
const ROOT = repoRoot();
const FOLDER = join(ROOT, 'deploy', 'helm');
const CHART = join(FOLDER, 'policysync');
const VALUE_SETS = readdirSync(join(CHART, 'ci'));

const [helm, schemas] = await Promise.all([helmProgram(), kubernetesSchemas()]);
const missing = [helm, schemas].flatMap((found) => ('missing' in found ? [found.missing] : []));
const skip = missing[0] ?? false;

const probe = z.looseObject({ httpGet: z.looseObject({ path: z.string() }).optional() });
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

/** Settings that exist, mounts that have a volume and volumes that are mounted, and pods that are locked down as the schema says. */
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
    'an engine that nobody may ask': [
      [...repository, ...open, '--set', 'client.enabled=true,client.networkPolicy.enabled=true'],
      /client\.networkPolicy\.from/,
    ],
    'a value that there is not': [[...repository, ...open, '--set', 'server.replica=2'], /replica/],
    'a secret as a plain setting': [
      [...repository, ...open, '--set', 'server.settings.SYNC_AUTH_MASTER_TOKEN=x'],
      /SYNC_AUTH_MASTER_TOKEN/,
    ],
    'an ingress for no host': [[...repository, ...open, '--set', 'server.ingress.enabled=true'], /hosts/],
  };
  for (const [what, [args, message]] of Object.entries(REFUSED)) {
    it(`refuses ${what}`, async () => {
      assert.match(await refused(...args), message);
    });
  }

  it('has a client as sidecar, as an example that Kubernetes accepts', () => {
    const [deployment, ...more] = manifestsOf(readFileSync(join(FOLDER, 'sidecar.yaml'), 'utf8'));
    assert(deployment !== undefined && more.length === 0);
    checkSchema(deployment);
    checkPods(workload.parse(deployment.spec));
  });
});

describe('the files of the chart', () => {
  it('name settings that exist, and know which of them are secret', () => {
    for (const file of readdirSync(CHART, { recursive: true, encoding: 'utf8' })) {
      if (!/\.(yaml|tpl|txt|json)$/.test(file)) continue;
      assert.deepEqual(unknownSettings(readFileSync(join(CHART, file), 'utf8')), [], file);
    }
    const schema = z
      .looseObject({ $defs: z.looseObject({ secretName: z.looseObject({ enum: z.array(z.string()) }) }) })
      .parse(JSON.parse(readFileSync(join(CHART, 'values.schema.json'), 'utf8')));
    assert.deepEqual(schema.$defs.secretName.enum, [...SECRET_SETTINGS].sort());
  });

  it('have the version of the package', () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
    const chart = z
      .looseObject({ version: z.string(), appVersion: z.string() })
      .parse(parse(readFileSync(join(CHART, 'Chart.yaml'), 'utf8')));
    assert.deepEqual([chart.version, chart.appVersion], [version, version]);
    assert.match(
      readFileSync(join(FOLDER, 'sidecar.yaml'), 'utf8'),
      new RegExp(`policysync/client-embedded:${version}$`, 'm'),
    );
  });
});
