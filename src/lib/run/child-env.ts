import { SyncError } from '../errors.js';

/** Environment variables of a process. */
type Env = Readonly<Record<string, string | undefined>>;

/** What programs need to run at all, to find their files and to speak the user's language. */
const BASE = [
  'PATH HOME USER LOGNAME SHELL PWD TMPDIR TMP TEMP TZ TERM LANG LANGUAGE LC_* LD_LIBRARY_PATH DYLD_LIBRARY_PATH',
  'XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_RUNTIME_DIR',
  'SystemRoot SystemDrive windir ComSpec PATHEXT Path USERPROFILE HOMEDRIVE HOMEPATH APPDATA LOCALAPPDATA ProgramData',
];

/** Proxies and trusted certificates. */
const NETWORK = [
  'HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy',
  'SSL_CERT_FILE SSL_CERT_DIR NIX_SSL_CERT_FILE CURL_CA_BUNDLE',
];

/** git and what it starts: ssh, its agent, Kerberos, helpers for credentials. */
const GIT = ['GIT_* SSH_AUTH_SOCK SSH_AGENT_PID SSH_ASKPASS SSH_ASKPASS_REQUIRE DISPLAY KRB5* GNUPGHOME NETRC'];

/** The limits of a Go program. */
const GO_RUNTIME = ['GOMAXPROCS GOMEMLIMIT GOGC GODEBUG GOTRACEBACK'];

/**
 * The variables that each kind of child process gets; a name may end with `*`. A child gets nothing
 * else of our environment, which has our tokens, keys and passwords.
 */
export const CHILD_VARIABLES = {
  /** OPA's Go code of the embedded engine, in a process of Node: what Node needs on Windows. */
  engine: names(['SystemRoot windir']),
  opa: names(BASE, NETWORK, GO_RUNTIME),
  git: names(BASE, NETWORK, GIT),
} as const satisfies Record<string, readonly string[]>;

function names(...lists: readonly (readonly string[])[]): readonly string[] {
  return lists.flat().flatMap((list) => list.split(' '));
}

/**
 * The environment of a child process: the variables of its kind, and those that the operator names
 * beside them.
 */
export function childEnv(
  env: Env,
  kind: keyof typeof CHILD_VARIABLES,
  more: readonly string[] = [],
): NodeJS.ProcessEnv {
  const exact = new Set([...CHILD_VARIABLES[kind], ...more]);
  const beginnings = CHILD_VARIABLES[kind].flatMap((name) => (name.endsWith('*') ? [name.slice(0, -1)] : []));
  const given = Object.entries(env).filter(
    ([name, value]) =>
      value !== undefined && (exact.has(name) || beginnings.some((beginning) => name.startsWith(beginning))),
  );
  return Object.fromEntries(given);
}

/**
 * Throws `config_invalid` for variables of a child that are settings of this program, since some
 * are secrets. `setting` is the setting that names them.
 */
export function assertNotOurs(variables: readonly string[], setting: string): void {
  const ours = variables.filter((name) => /^(SYNC|OPAL)_/i.test(name));
  if (ours.length === 0) return;
  throw new SyncError(
    'config_invalid',
    `${setting} names ${ours.join(', ')}: settings of this program, its tokens among them, are not handed on. Give the value another name`,
  );
}
