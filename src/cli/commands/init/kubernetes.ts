import { readFile } from 'node:fs/promises';
import { hasCredentials } from '../../../lib/net/url-credentials.js';
import { redactUrl } from '../../../lib/observe/log.js';
import { UsageError } from '../../kit/run-program.js';
import type { NewFile } from './files.js';
import { isAddress, type Plan } from './plan.js';
import { SECRET_FILES } from './secrets.js';
import { scalar } from './settings-file.js';
import { helmCommands, KUBERNETES_FILES } from './target-lines.js';
import { TLS_FILES } from './trial-tls.js';

/** The name of the server inside its namespace, for a release that is called policysync. */
export const KUBERNETES_SERVER = 'policysync-server';
const SSH_KEY = 'ssh-privatekey';
/** Where a client finds the trial authority. */
const AUTHORITY = '/run/authority';

/**
 * Values for the chart of the package, and a manifest of the secrets that they name. `files`: what
 * was made for the plan.
 */
export async function kubernetesFiles(plan: Plan, files: readonly NewFile[]): Promise<NewFile[]> {
  if (!isAddress(plan.repository) || plan.repository.startsWith('file:')) {
    throw new UsageError(
      `--kubernetes: a cluster does not reach ${redactUrl(plan.repository)}: give --repository a URL that it does`,
    );
  }
  const secrets = await secretsFile(plan, files);
  const values = valuesFile(plan, secrets !== undefined);
  return secrets === undefined ? [values] : [values, secrets];
}

function valuesFile({ mode, repository, branch, sshKey, tls, registry }: Plan, hasSecrets: boolean): NewFile {
  const network = mode === 'network';
  const ofServer = [
    ...(network ? ['    - { setting: SYNC_POLICY_REPO_WEBHOOK_SECRET, secret: policysync, key: webhook-secret }'] : []),
    ...(sshKey === undefined
      ? []
      : [`    - { setting: SYNC_POLICY_REPO_SSH_KEY, secret: policysync, key: ${SSH_KEY} }`]),
  ];
  const lines = [
    '# Values for the Helm chart of the package:',
    '#',
    ...helmCommands(hasSecrets).map((command) => `#   ${command}`),
    'image:',
    ...(registry === undefined
      ? ['  # Set this: the registry that has the images. docs/how-to/deploy.md says how to build and push them.']
      : []),
    `  registry: ${scalar(registry ?? '')}`,
    'authentication:',
    ...(network
      ? ['  existingSecret: policysync']
      : [
          '  # Whoever reaches the server may do everything: `policysync init --mode network` makes keys.',
          '  enabled: false',
        ]),
    'server:',
    '  policyRepo:',
    `    url: ${scalar(repository)}`,
    `    branch: ${scalar(branch)}`,
    ...(ofServer.length === 0 ? [] : ['  secretSettings:', ...ofServer]),
    ...(tls === 'trial' ? ['  tls:', '    existingSecret: policysync-tls'] : []),
    'client:',
    '  enabled: true',
    ...(network ? ['  existingSecret: policysync-client'] : []),
    ...(tls === 'trial'
      ? [
          `  serverUrl: https://${KUBERNETES_SERVER}:7002`,
          '  settings:',
          '    SYNC_CLIENT_SELF_SIGNED_CERTIFICATES_ALLOWED: true',
          `    SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE: ${AUTHORITY}/ca.crt`,
          '  extraVolumes:',
          '    - { name: authority, secret: { secretName: policysync-tls, items: [{ key: ca.crt, path: ca.crt }] } }',
          `  extraVolumeMounts: [{ name: authority, mountPath: ${AUTHORITY}, readOnly: true }]`,
        ]
      : []),
    '',
  ];
  return {
    path: KUBERNETES_FILES.values,
    text: lines.join('\n'),
    mode: hasCredentials(repository) ? 0o600 : 0o644,
    about: 'values for the Helm chart; its head has the commands',
  };
}

/**
 * The secrets as manifests, with the names and keys that the chart expects; undefined if there are
 * none.
 */
async function secretsFile({ sshKey }: Plan, files: readonly NewFile[]): Promise<NewFile | undefined> {
  const textOf = (path: string): string | undefined => files.find((file) => file.path === path)?.text;
  const key = sshKey === undefined ? undefined : await readKey(sshKey);
  const manifests = [
    manifest('policysync', 'Opaque', {
      'auth-private-key': textOf(SECRET_FILES.privateKey),
      'auth-public-key': textOf(SECRET_FILES.publicKey),
      'auth-master-token': textOf(SECRET_FILES.masterToken),
      'webhook-secret': textOf(SECRET_FILES.webhookSecret),
      [SSH_KEY]: key,
    }),
    manifest('policysync-client', 'Opaque', {
      'client-token': textOf(SECRET_FILES.clientToken),
      'auth-public-key': textOf(SECRET_FILES.clientToken) === undefined ? undefined : textOf(SECRET_FILES.publicKey),
    }),
    manifest('policysync-tls', 'kubernetes.io/tls', {
      'tls.crt': textOf(TLS_FILES.cert),
      'tls.key': textOf(TLS_FILES.key),
      'ca.crt': textOf(TLS_FILES.ca),
    }),
  ].filter((text) => text !== undefined);
  if (manifests.length === 0) return undefined;
  return {
    path: KUBERNETES_FILES.secrets,
    text: manifests.join('---\n'),
    mode: 0o600,
    about: 'the secrets for `kubectl apply`',
  };
}

function manifest(name: string, type: string, data: Readonly<Record<string, string | undefined>>): string | undefined {
  const given = Object.entries(data).filter((entry): entry is [string, string] => entry[1] !== undefined);
  if (given.length === 0) return undefined;
  const lines = given.map(([key, text]) => `  ${key}: ${JSON.stringify(text)}`);
  return [
    'apiVersion: v1',
    'kind: Secret',
    `metadata: { name: ${name} }`,
    `type: ${type}`,
    'stringData:',
    ...lines,
    '',
  ].join('\n');
}

async function readKey(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch {
    throw new UsageError(`--ssh-key: ${path} cannot be read`);
  }
}
