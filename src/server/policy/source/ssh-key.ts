import { access, chmod, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { readKeyFile } from '../../../auth/key-text.js';
import { isSshLine } from '../../../auth/ssh-line.js';
import { SyncError } from '../../../lib/errors.js';
import { KeyProblem, readPem } from '../../../lib/net/pem-text.js';
import type { Secret } from '../../../lib/observe/log.js';
import { quotedWord } from '../../../lib/run/shell-word.js';
import { expandHome } from '../../../lib/settings/home-path.js';

/** A private key for ssh. */
interface SshKey {
  /** As ssh reads it. */
  readonly text: string;
  /** The file that has exactly this text, or undefined. */
  readonly file: string | undefined;
  /** The folder of the file that the setting names; undefined: it is the text of a key. */
  readonly folder: string | undefined;
}

/**
 * Reads SYNC_POLICY_REPO_SSH_KEY: the text of a private key or the path of a file that has one.
 * Throws `config_invalid`, which says what is wrong, and never shows the value or the path.
 */
export async function readSshKey(key: Secret): Promise<SshKey> {
  const value = key.reveal().trim();
  try {
    const given = privateKeyText(value);
    if (given !== undefined) return { text: given, file: undefined, folder: undefined };
    const content = (await readKeyFile(value))?.toString('utf8');
    if (content === undefined) {
      throw new KeyProblem('is neither the text of a private key nor the path of a file that exists');
    }
    const text = privateKeyText(content.trim());
    if (text === undefined) throw new KeyProblem('names a file that has no private key: OpenSSH and PEM can be read');
    const file = resolve(expandHome(value));
    return { text, file: text === content ? file : undefined, folder: dirname(file) };
  } catch (cause) {
    if (!(cause instanceof KeyProblem)) throw cause;
    throw new SyncError('config_invalid', `SYNC_POLICY_REPO_SSH_KEY ${cause.message}`, { retryable: true });
  }
}

/**
 * The text of a private key in its usual form; undefined: it is not meant as one. Throws a
 * {@link KeyProblem}.
 */
function privateKeyText(text: string): string | undefined {
  if (text.startsWith('PuTTY-User-Key-File')) {
    throw new KeyProblem('is a key of PuTTY: convert it by `puttygen key.ppk -O private-openssh -o key`');
  }
  if (text.startsWith('---- BEGIN SSH2')) {
    throw new KeyProblem('is a key in the form of SSH2: convert it by `ssh-keygen -i`');
  }
  if (isSshLine(text)) throw new KeyProblem('is a public key: give the private one');
  const pem = readPem(text);
  if (pem === undefined) return undefined;
  if (pem.labels.some((label) => label.endsWith('PRIVATE KEY'))) return pem.text;
  throw new KeyProblem(`is a ${pem.labels[0]?.toLowerCase()}: give a private key`);
}

/** What ssh may not show of SYNC_POLICY_REPO_SSH_KEY: the path that it is given. Pure. */
export function sshKeySecrets(key: Secret | undefined): string[] {
  return key === undefined ? [] : [resolve(expandHome(key.reveal().trim()))];
}

/** The files of ssh itself, in its own words. */
const DEFAULT_HOSTS = ['~/.ssh/known_hosts', '~/.ssh/known_hosts2'];

/**
 * GIT_SSH_COMMAND for SYNC_POLICY_REPO_SSH_KEY. A key that is not as ssh reads it in a file of the
 * user is written to `keyFile`, with mode
 * 0600. Rejects as {@link readSshKey} does.
 */
export async function sshCommandFor(key: Secret, keyFile: string): Promise<string> {
  const { text, file, folder } = await readSshKey(key);
  if (file === undefined) await writeKey(keyFile, text);
  const used = file ?? keyFile;
  if (folder === undefined) return sshCommand(used);
  const hosts = join(folder, 'known_hosts');
  if (hosts === expandHome('~/.ssh/known_hosts')) return sshCommand(used);
  return await access(hosts).then(
    () => sshCommand(used, hosts),
    // One that cannot be read is one all the same: ssh refuses every host then, rather than accept
    // any.
    (error: NodeJS.ErrnoException) => sshCommand(used, error.code === 'ENOENT' ? undefined : hosts),
  );
}

async function writeKey(file: string, text: string): Promise<void> {
  // `mode` applies only to a new file, and ssh rejects a key that others can read.
  await rm(file, { force: true });
  await writeFile(file, text, { mode: 0o600, flag: 'wx' });
  await chmod(file, 0o600);
}

/**
 * GIT_SSH_COMMAND: uses only this key, and never prompts. Keys of hosts are those of `hosts`, a
 * file beside the key, and of ssh's own files, and no others; without `hosts` that of a new host is
 * accepted, and kept where ssh has a home.
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

function quoted(word: string): string {
  return /^[\w=-]+$/.test(word) ? word : quotedWord(word);
}
