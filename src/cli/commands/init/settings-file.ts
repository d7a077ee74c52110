import { CLIENT_SETTINGS } from '../../../client/options.js';
import { flagName, secretFileFlag } from '../../../lib/settings/setting.js';
import { SERVER_SETTINGS } from '../../../server/options.js';
import type { Plan } from './plan.js';
import { SECRET_FILES } from './secrets.js';
import { TLS_FILES } from './trial-tls.js';

/** How the configuration file is written. */
export interface FileStyle {
  /** Where editors find the JSON schema of the file; undefined: nowhere that lasts. */
  readonly schema: string | undefined;
  /** The path of a file of the set-up where the programs run. Default: as it is, in the folder. */
  readonly place?: (path: string) => string;
  /** False: secrets come from elsewhere, such as credentials of systemd. */
  readonly secrets: boolean;
  /** False: the address of the repository comes from elsewhere. Default: it is in the file. */
  readonly repository?: boolean;
  /** False: the state folder comes from elsewhere. */
  readonly state: boolean;
}

const S = SERVER_SETTINGS;
const C = CLIENT_SETTINGS;
/** Polls in seconds: soon on one machine, rarely where webhooks come, too. */
const POLL = { local: 5, network: 30 } as const;

type Value = string | number | boolean;
/** A line of a section: a setting with its value, or a comment. */
type Line = { readonly key: string; readonly value: Value } | { readonly comment: string };

/**
 * The text of `policysync.yaml` for a plan. Its keys come from the declarations of the settings.
 */
export function settingsFile(plan: Plan, style: FileStyle): string {
  const relative = style.place === undefined ? ' Relative paths begin in this folder.' : '';
  return [
    ...(style.schema === undefined ? [] : [`# yaml-language-server: $schema=${style.schema}`]),
    `# PolicySync: settings of server and client, as \`policysync init\` wrote them.${relative}`,
    '# A flag and an environment variable win over a line here. `policysync server --help-all` lists every setting.',
    ...section('server', serverLines(plan, style)),
    '',
    ...section('client', clientLines(plan, style)),
    '',
  ].join('\n');
}

function serverLines(plan: Plan, style: FileStyle): Line[] {
  const { mode, repository, branch, sshKey, port, tls } = plan;
  const { place = (path) => path } = style;
  const secrets = mode === 'network' && style.secrets;
  return [
    ...(style.repository === false ? [] : [set(S.policyRepoUrl, repository)]),
    set(S.policyRepoBranch, branch),
    set(S.policyRepoPollingIntervalMs, POLL[mode]),
    ...(sshKey === undefined ? [] : [set(S.policyRepoSshKey, sshKey)]),
    ...(secrets ? [secretFile(S.policyRepoWebhookSecret, place(SECRET_FILES.webhookSecret))] : []),
    set(S.host, mode === 'network' ? '0.0.0.0' : '127.0.0.1'),
    set(S.port, port),
    ...(style.state ? [set(S.stateDir, 'state')] : []),
    ...(mode === 'network' ? [set(S.authPublicKey, place(SECRET_FILES.publicKey))] : []),
    ...(secrets
      ? [
          secretFile(S.authPrivateKey, place(SECRET_FILES.privateKey)),
          secretFile(S.authMasterToken, place(SECRET_FILES.masterToken)),
        ]
      : []),
    ...(tls === 'trial' ? [set(S.tlsCertFile, place(TLS_FILES.cert)), set(S.tlsKeyFile, place(TLS_FILES.key))] : []),
    ...(mode === 'network' && tls === 'none'
      ? [
          { comment: 'Tokens cross the network in clear text until a proxy in front has TLS, or these are set:' },
          { comment: `${flagName(S.tlsCertFile)}: /path/to/server.pem` },
          { comment: `${flagName(S.tlsKeyFile)}: /path/to/server.key` },
        ]
      : []),
  ];
}

function clientLines(plan: Plan, style: FileStyle): Line[] {
  const { mode, serverName, port, clientPort, enginePort, tls } = plan;
  const { place = (path) => path } = style;
  const host = mode === 'local' ? '127.0.0.1' : serverName;
  return [
    set(C.serverUrl, `${tls === 'trial' ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`),
    ...(mode === 'network' && style.secrets ? [secretFile(C.clientToken, place(SECRET_FILES.clientToken))] : []),
    ...(mode === 'network' ? [set(C.authPublicKey, place(SECRET_FILES.publicKey))] : []),
    ...(tls === 'trial' ? [set(C.selfSignedAllowed, true), set(C.trustedCaFile, place(TLS_FILES.ca))] : []),
    set(C.port, clientPort),
    set(C.engineUrl, `http://127.0.0.1:${enginePort}`),
  ];
}

function set(setting: { readonly env: string }, value: Value): Line {
  return { key: flagName(setting), value };
}

function secretFile(setting: { readonly env: string }, path: string): Line {
  return { key: secretFileFlag(setting), value: path };
}

function section(name: string, lines: readonly Line[]): string[] {
  return [
    `${name}:`,
    ...lines.map((line) => ('comment' in line ? `  # ${line.comment}` : `  ${line.key}: ${scalar(line.value)}`)),
  ];
}

/**
 * A YAML scalar: plain where that means the same text, otherwise in double quotes, which are those
 * of JSON.
 */
export function scalar(value: Value): string {
  if (typeof value !== 'string') return String(value);
  const isPlain = /^[A-Za-z/.][\w./@-]*(?::[\w./@-]+)*$/.test(value);
  return isPlain && !/^(?:true|false|null|yes|no|on|off|y|n|\.inf|\.nan)$/i.test(value) ? value : JSON.stringify(value);
}
