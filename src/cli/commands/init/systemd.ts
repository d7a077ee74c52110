import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { hasCredentials } from '../../../lib/net/url-credentials.js';
import { shellWord } from '../../../lib/run/shell-word.js';
import { packageFolder } from '../../../lib/run/version.js';
import { SERVER_SETTINGS as S } from '../../../server/options.js';
import { UsageError } from '../../kit/run-program.js';
import type { NewFile } from './files.js';
import type { Plan } from './plan.js';
import { SECRET_FILES } from './secrets.js';
import { settingsFile } from './settings-file.js';
import { TLS_FILES } from './trial-tls.js';

const ETC = '/etc/policysync';
const SERVER_ENV = 'systemd/server.env';
const PROGRAMS = ['server', 'client'] as const;
type Program = (typeof PROGRAMS)[number];

/** A file of the set-up that a service gets as a credential: only it can read its copy. */
interface Credential {
  readonly name: string;
  readonly path: string;
  /** The variable with the path of the copy. */
  readonly variable: string;
}

/**
 * The units of the package for this set-up, and a script that installs them with settings and
 * secrets. `command`: how the program is started, with absolute paths.
 */
export async function systemdFiles(
  plan: Plan,
  { command, schema }: { command: readonly string[]; schema: string | undefined },
): Promise<NewFile[]> {
  const files: NewFile[] = [];
  for (const program of PROGRAMS) {
    const unit = `policysync-${program}.service`;
    const text = await readUnit(unit);
    const started = text.replace(
      /^ExecStart=policysync /m,
      () => `ExecStart=${command.map((word, index) => unitWord(word, index > 0)).join(' ')} `,
    );
    files.push({ path: `systemd/${unit}`, text: started, mode: 0o644, about: `unit of the ${program}` });
    const more = dropIn(plan, program);
    if (more !== undefined) {
      const path = `systemd/${unit}.d/credentials.conf`;
      files.push({ path, text: more, mode: 0o644, about: 'its secrets, as credentials' });
    }
  }
  const place = (path: string): string => `${ETC}/${basename(path)}`;
  const isSecret = hasCredentials(plan.repository);
  const settings = settingsFile(plan, { schema, place, secrets: false, state: false, repository: !isSecret });
  return [
    { path: 'systemd/policysync.yaml', text: settings, mode: 0o644, about: 'settings for /etc/policysync' },
    ...(isSecret ? [serverEnvironment(plan)] : []),
    ...files,
    {
      path: 'systemd/install.sh',
      text: installScript(plan),
      mode: 0o755,
      about: 'installs the systemd units with settings and secrets, as root',
    },
  ];
}

async function readUnit(unit: string): Promise<string> {
  const file = join(packageFolder(), 'deploy', 'systemd', unit);
  try {
    return await readFile(file, 'utf8');
  } catch {
    throw new UsageError(`--systemd: ${file} cannot be read: install the package again`);
  }
}

/**
 * The address of a repository with its token, in the file that systemd reads as root: every user
 * reads policysync.yaml.
 */
function serverEnvironment({ repository }: Plan): NewFile {
  const value = repository.replaceAll("'", '%27');
  const text = `${S.policyRepoUrl.env}='${value}'\n`;
  return { path: SERVER_ENV, text, mode: 0o600, about: 'address of the repository with its token' };
}

function credentialsOf({ mode, tls, sshKey }: Plan, program: Program): Credential[] {
  const of = (name: string, path: string, variable: string): Credential => ({ name, path, variable });
  if (program === 'client') {
    return mode === 'network' ? [of('client-token', SECRET_FILES.clientToken, 'SYNC_CLIENT_TOKEN_FILE')] : [];
  }
  return [
    ...(mode === 'network'
      ? [
          of('auth-private-key', SECRET_FILES.privateKey, 'SYNC_AUTH_PRIVATE_KEY_FILE'),
          of('auth-master-token', SECRET_FILES.masterToken, 'SYNC_AUTH_MASTER_TOKEN_FILE'),
          of('webhook-secret', SECRET_FILES.webhookSecret, 'SYNC_POLICY_REPO_WEBHOOK_SECRET_FILE'),
        ]
      : []),
    ...(tls === 'trial' ? [of('server-tls-key', TLS_FILES.key, 'SYNC_SERVER_TLS_KEY_FILE')] : []),
    ...(sshKey === undefined ? [] : [of('ssh-key', sshKey, 'SYNC_POLICY_REPO_SSH_KEY_FILE')]),
  ];
}

function dropIn(plan: Plan, program: Program): string | undefined {
  const credentials = credentialsOf(plan, program);
  if (credentials.length === 0) return undefined;
  return [
    '# Each file belongs to root with mode 0600; the service gets copies that only it can read.',
    '[Service]',
    ...credentials.map(({ name }) => `LoadCredential=${name}:${ETC}/credentials/${name}`),
    ...credentials.map(({ name, variable }) => `Environment=${variable}=%d/${name}`),
    '',
  ].join('\n');
}

/** Files that every user may read: public key and certificates. */
function publicFiles({ mode, tls }: Plan, program: Program): string[] {
  return [
    ...(mode === 'network' ? [SECRET_FILES.publicKey] : []),
    ...(tls === 'trial' ? [program === 'server' ? TLS_FILES.cert : TLS_FILES.ca] : []),
  ];
}

function installScript(plan: Plan): string {
  const steps = (program: Program): string[] => [
    ...publicFiles(plan, program).map((path) => `  install -m 0644 ../${path} ${ETC}/${basename(path)}`),
    ...credentialsOf(plan, program).map(({ name, path }) => {
      const from = path.startsWith('/') ? shellWord(path) : `../${path}`;
      return `  install -m 0600 ${from} ${ETC}/credentials/${name}`;
    }),
    ...(program === 'server' && hasCredentials(plan.repository)
      ? [`  install -m 0600 server.env ${ETC}/server.env`]
      : []),
    `  install -m 0644 policysync-${program}.service /etc/systemd/system/`,
    ...(credentialsOf(plan, program).length === 0
      ? []
      : [
          `  install -d -m 0755 /etc/systemd/system/policysync-${program}.service.d`,
          `  install -m 0644 policysync-${program}.service.d/credentials.conf /etc/systemd/system/policysync-${program}.service.d/`,
        ]),
  ];
  return [
    '#!/bin/sh',
    '# Installs the sync server, the sync client, or both on this machine, as root: sh install.sh server',
    'set -eu',
    'program="$*"', // none is no error of the shell, but of the next line
    'case $program in server | client | both) ;; *) echo "usage: $0 server|client|both" >&2; exit 2 ;; esac',
    'cd "$(dirname "$0")"',
    `install -d -m 0755 ${ETC}`,
    `install -d -m 0700 ${ETC}/credentials`,
    `install -m 0644 policysync.yaml ${ETC}/policysync.yaml`,
    ...PROGRAMS.flatMap((program) => [
      `if [ "$program" != ${program === 'server' ? 'client' : 'server'} ]; then`,
      ...steps(program),
      'fi',
    ]),
    'systemctl daemon-reload',
    'if [ "$program" = both ]; then units="policysync-server policysync-client"; else units=policysync-$program; fi',
    'echo "Installed. Start it with: systemctl enable --now $units"',
    '',
  ].join('\n');
}

/**
 * A word of a command in a unit, which has quotes, specifiers and, except in the program, variables
 * (systemd.service(5)).
 */
function unitWord(text: string, hasVariables: boolean): string {
  if (/^[\w./@-]+$/.test(text)) return text;
  const quoted = text.replaceAll(/["\\]/g, '\\$&').replaceAll('%', '%%');
  return `"${hasVariables ? quoted.replaceAll('$', '$$$$') : quoted}"`;
}
