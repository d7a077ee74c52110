import { packageVersion } from '../../../lib/run/version.js';
import type { NewFile } from './files.js';
import { isAddress, type Plan } from './plan.js';
import { SECRET_FILES } from './secrets.js';
import { scalar } from './settings-file.js';
import { IMAGE_USER } from './target-lines.js';
import { TLS_FILES } from './trial-tls.js';

const CONFIG = '/etc/policysync/policysync.yaml';
/** Where a repository of this machine is in the container. */
const POLICIES = '/policies';

/** A secret of the Compose file: its name and its file in the folder. */
type ComposeSecret = readonly [name: string, path: string];

/**
 * A Compose file for server and client. It mounts `policysync.yaml`; what differs inside the
 * containers (addresses, paths) comes by the environment, which wins. `uid`, `gid`: of the user who
 * owns the secrets.
 */
export function composeFile(plan: Plan, { uid, gid }: { uid: number; gid: number }): NewFile {
  const isRoot = uid === 0;
  const user = isRoot ? `${IMAGE_USER}:${IMAGE_USER}` : `${uid}:${gid}`;
  const secrets = secretsOf(plan);
  const inside = (names: readonly string[]): string => names.filter((name) => secrets.has(name)).join(', ');
  const server = [
    'auth-private-key',
    'auth-public-key',
    'master-token',
    'webhook-secret',
    'tls-cert',
    'tls-key',
    'ssh-key',
  ];
  const client = ['client-token', 'auth-public-key', 'tls-ca'];
  const registry = plan.registry === undefined ? '' : `${plan.registry}/`;
  const image = (name: 'server' | 'client'): string =>
    `\${POLICYSYNC_REGISTRY:-${registry}}policysync/${name}:\${POLICYSYNC_VERSION:-${packageVersion()}}`;
  const lines = [
    '# Server and client in containers, with the settings of policysync.yaml beside this file:',
    '#',
    '#   docker compose up --detach',
    '#',
    ...(isRoot
      ? [
          `# The containers run as user ${IMAGE_USER}, who must own the files: chown -R ${IMAGE_USER}:${IMAGE_USER} secrets state`,
          '#',
        ]
      : []),
    '# docs/how-to/deploy.md says how to build the images. POLICYSYNC_REGISTRY, with a slash at its end, and POLICYSYNC_VERSION choose others.',
    'name: policysync',
    '',
    'x-hardened: &hardened',
    `  user: ${JSON.stringify(user)}`,
    '  read_only: true',
    '  tmpfs: [/tmp]',
    '  cap_drop: [ALL]',
    '  security_opt: ["no-new-privileges:true"]',
    '  restart: unless-stopped',
    '  stop_grace_period: 45s',
    '',
    'services:',
    '  server:',
    '    <<: *hardened',
    `    image: ${image('server')}`,
    ...environment(serverEnvironment(plan)),
    `    ports: [${JSON.stringify(`${plan.mode === 'local' ? '127.0.0.1:' : ''}${plan.port}:7002`)}]`,
    ...list('secrets', inside(server)),
    '    volumes:',
    `      - ./policysync.yaml:${CONFIG}:ro`,
    '      - ./state:/var/lib/policysync',
    ...(isAddress(plan.repository)
      ? []
      : [`      - { type: bind, source: ${literal(plan.repository)}, target: ${POLICIES}, read_only: true }`]),
    '',
    '  client:',
    '    <<: *hardened',
    `    image: ${image('client')}`,
    '    depends_on:',
    '      server: { condition: service_healthy }',
    ...environment(clientEnvironment(plan)),
    `    ports: ["127.0.0.1:${plan.clientPort}:7000", "127.0.0.1:${plan.enginePort}:8181"]`,
    ...list('secrets', inside(client)),
    '    volumes:',
    `      - ./policysync.yaml:${CONFIG}:ro`,
    ...(secrets.size === 0
      ? []
      : ['', 'secrets:', ...[...secrets].map(([name, path]) => `  ${name}: { file: ${literal(path)} }`)]),
    '',
  ];
  return {
    path: 'compose.yaml',
    text: lines.join('\n'),
    mode: 0o644,
    about: 'server and client in containers: `docker compose up`',
  };
}

function secretsOf({ mode, tls, sshKey }: Plan): ReadonlyMap<string, string> {
  const all: ComposeSecret[] = [
    ...(mode === 'network'
      ? ([
          ['auth-private-key', SECRET_FILES.privateKey],
          ['auth-public-key', SECRET_FILES.publicKey],
          ['master-token', SECRET_FILES.masterToken],
          ['webhook-secret', SECRET_FILES.webhookSecret],
          ['client-token', SECRET_FILES.clientToken],
        ] as const)
      : []),
    ...(tls === 'trial'
      ? ([
          ['tls-cert', TLS_FILES.cert],
          ['tls-key', TLS_FILES.key],
          ['tls-ca', TLS_FILES.ca],
        ] as const)
      : []),
    ...(sshKey === undefined ? [] : ([['ssh-key', sshKey]] as const)),
  ];
  return new Map(all.map(([name, path]) => [name, path.startsWith('/') ? path : `./${path}`]));
}

type Environment = readonly (readonly [name: string, value: string])[];

function serverEnvironment({ mode, tls, sshKey, repository }: Plan): Environment {
  return [
    ['SYNC_CONFIG', CONFIG],
    ['SYNC_SERVER_HOST', '0.0.0.0'],
    ['SYNC_SERVER_BIND_PORT', '7002'],
    ['SYNC_STATE_DIR', '/var/lib/policysync'],
    ...(isAddress(repository) ? [] : ([['SYNC_POLICY_REPO_URL', POLICIES]] as const)),
    ...(sshKey === undefined ? [] : ([['SYNC_POLICY_REPO_SSH_KEY_FILE', '/run/secrets/ssh-key']] as const)),
    ...(mode === 'network'
      ? ([
          ['SYNC_AUTH_PRIVATE_KEY_FILE', '/run/secrets/auth-private-key'],
          ['SYNC_AUTH_PUBLIC_KEY', '/run/secrets/auth-public-key'],
          ['SYNC_AUTH_MASTER_TOKEN_FILE', '/run/secrets/master-token'],
          ['SYNC_POLICY_REPO_WEBHOOK_SECRET_FILE', '/run/secrets/webhook-secret'],
        ] as const)
      : []),
    ...(tls === 'trial'
      ? ([
          ['SYNC_SERVER_TLS_CERT_FILE', '/run/secrets/tls-cert'],
          ['SYNC_SERVER_TLS_KEY_FILE', '/run/secrets/tls-key'],
        ] as const)
      : []),
  ];
}

function clientEnvironment({ mode, tls }: Plan): Environment {
  return [
    ['SYNC_CONFIG', CONFIG],
    ['SYNC_SERVER_URL', `${tls === 'trial' ? 'https' : 'http'}://server:7002`],
    ['SYNC_CLIENT_API_SERVER_HOST', '0.0.0.0'],
    ['SYNC_CLIENT_API_SERVER_PORT', '7000'],
    ['SYNC_POLICY_STORE_URL', 'http://127.0.0.1:8181'],
    ...(mode === 'network'
      ? ([
          ['SYNC_CLIENT_TOKEN_FILE', '/run/secrets/client-token'],
          ['SYNC_AUTH_PUBLIC_KEY', '/run/secrets/auth-public-key'],
        ] as const)
      : []),
    ...(tls === 'trial' ? ([['SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE', '/run/secrets/tls-ca']] as const) : []),
  ];
}

function environment(values: Environment): string[] {
  return ['    environment:', ...values.map(([name, value]) => `      ${name}: ${scalar(value)}`)];
}

/** A scalar in which Compose replaces no variables. */
function literal(text: string): string {
  return scalar(text.replaceAll('$', '$$$$'));
}

function list(key: string, items: string): string[] {
  return items === '' ? [] : [`    ${key}: [${items}]`];
}
