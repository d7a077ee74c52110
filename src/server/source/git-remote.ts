import { access, chmod, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { SyncError } from '../../lib/errors.js';
import { expandHome } from '../../lib/home-path.js';
import { decoded } from '../../lib/http-response.js';
import { redactUrl, type Secret } from '../../lib/log.js';

/** Allowed URL schemes. */
const SCHEMES: ReadonlySet<string> = new Set(['file', 'git', 'git+ssh', 'http', 'https', 'ssh', 'ssh+git']);

/**
 * Reads a repository of this machine whoever owns it: the operator names it, but a container or a service runs as a user of its own,
 * whom git refuses. Git passes no configuration on to this program, which reads this one repository; since its own configuration
 * names programs for that, it may fetch nothing.
 */
const READ_LOCAL = ["--upload-pack=GIT_ALLOW_PROTOCOL= git -c 'safe.directory=*' upload-pack"];

/** A remote repository, with its credentials separated from the URL. */
export interface GitRemote {
  /** URL without credentials: the argument for git, and the identity of the repository. */
  url: string;
  /** The URL for logs and messages. */
  display: string;
  /** Flags of `git fetch` and `git ls-remote`. */
  flags: readonly string[];
  /** Git configuration with the credentials. */
  config: readonly (readonly [string, string])[];
  /** Texts that must never appear in messages. */
  secrets: readonly string[];
}

/**
 * Parses SYNC_POLICY_REPO_URL: file, http(s), git and ssh URLs, the scp form `user@host:path`, and local paths (made absolute).
 * Credentials of an http(s) URL become an Authorization header that git sends to this URL only; a user name alone counts as a
 * token with an empty password. Throws `config_invalid` for an invalid URL.
 */
export function parseGitRemote(text: string): GitRemote {
  const plain = (url: string, flags: readonly string[] = []): GitRemote => ({
    ...{ url, display: redactUrl(url), flags },
    ...{ config: [], secrets: [] },
  });
  const scheme = /^([a-z][a-z0-9+.-]*)(?::\/\/|::)/i.exec(text)?.[1];
  if (scheme !== undefined && !SCHEMES.has(scheme.toLowerCase())) {
    const known = [...SCHEMES].join(', ');
    throw new SyncError(
      'config_invalid',
      `SYNC_POLICY_REPO_URL has the scheme ${scheme}, which is not followed: use ${known}, user@host:path or a path`,
    );
  }
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) {
    const isScpForm = /^[^/:]+:/.test(text);
    return isScpForm ? plain(text) : plain(resolve(text), READ_LOCAL);
  }
  let parsed: URL;
  try {
    parsed = new URL(text);
  } catch (cause) {
    throw new SyncError('config_invalid', `SYNC_POLICY_REPO_URL is not a URL: ${withoutUserPart(text)}`, { cause });
  }
  if (parsed.protocol === 'http:' || parsed.protocol === 'https:') return httpRemote(parsed);
  // ssh ignores a password in the URL; the user name is part of the address.
  if (parsed.password === '') return plain(text, parsed.protocol === 'file:' ? READ_LOCAL : []);
  const secrets = [parsed.password, decoded(parsed.password)];
  parsed.password = '';
  return { ...plain(parsed.href), secrets };
}

function httpRemote(parsed: URL): GitRemote {
  const user = decoded(parsed.username);
  const password = decoded(parsed.password);
  const raw = password === '' ? parsed.username : parsed.password;
  parsed.username = '';
  parsed.password = '';
  const url = parsed.href;
  if (user === '' && password === '') return { url, display: redactUrl(url), flags: [], config: [], secrets: [] };
  const basic = Buffer.from(`${user}:${password}`).toString('base64');
  return {
    url,
    display: redactUrl(url),
    flags: [],
    config: [[`http.${url}.extraHeader`, `Authorization: Basic ${basic}`]],
    // A user name with a password is not secret, and masking it would garble messages that contain the word.
    secrets: [basic, raw, decoded(raw)],
  };
}

function withoutUserPart(text: string): string {
  return text.replace(/\/\/[^/]*@/, '//***@');
}

/**
 * Returns the key file for ssh from SYNC_POLICY_REPO_SSH_KEY: its path, or, if the setting is the text of a key, `keyFile`, written
 * with mode 0600. In a text without newlines, underscores stand for newlines (opal-protocol P5.1).
 */
export async function provideSshKey(key: Secret, keyFile: string): Promise<string> {
  const value = key.reveal().trim();
  if (!value.includes('PRIVATE KEY')) return resolve(expandHome(value));
  const text = value.includes('\n') ? value : value.replaceAll('_', '\n');
  // `mode` applies only to a new file, and ssh rejects a key that others can read.
  await rm(keyFile, { force: true });
  await writeFile(keyFile, `${text}\n`, { mode: 0o600, flag: 'wx' });
  await chmod(keyFile, 0o600);
  return keyFile;
}

/** The files of ssh itself, in its own words. */
const DEFAULT_HOSTS = ['~/.ssh/known_hosts', '~/.ssh/known_hosts2'];

/** GIT_SSH_COMMAND for SYNC_POLICY_REPO_SSH_KEY; `keyFile` as for {@link provideSshKey}. */
export async function sshCommandFor(key: Secret, keyFile: string): Promise<string> {
  const file = await provideSshKey(key, keyFile);
  const hosts = join(dirname(file), 'known_hosts');
  if (hosts === join(homedir(), '.ssh', 'known_hosts')) return sshCommand(file);
  return await access(hosts).then(
    () => sshCommand(file, hosts),
    // One that cannot be read is one all the same: ssh refuses every host then, rather than accept any.
    (error: NodeJS.ErrnoException) => sshCommand(file, error.code === 'ENOENT' ? undefined : hosts),
  );
}

/**
 * GIT_SSH_COMMAND: uses only this key, and never prompts. Keys of hosts are those of `hosts`, a file beside the key, and of ssh's own
 * files, and no others; without `hosts` that of a new host is accepted, and kept where ssh has a home.
 */
export function sshCommand(keyFile: string, hosts?: string): string {
  const options = ['IdentitiesOnly=yes', `StrictHostKeyChecking=${hosts === undefined ? 'accept-new' : 'yes'}`];
  if (hosts !== undefined) {
    // ssh splits the list at spaces, and replaces %d and the like.
    const escaped = hosts.replaceAll('%', '%%').replaceAll(/["\\]/g, '\\$&');
    options.push(`UserKnownHostsFile="${escaped}" ${DEFAULT_HOSTS.join(' ')}`);
  }
  return ['ssh', '-i', keyFile, ...[...options, 'BatchMode=yes'].flatMap((option) => ['-o', option])]
    .map(quoted)
    .join(' ');
}

/** A word for a shell. */
function quoted(word: string): string {
  return /^[\w=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
