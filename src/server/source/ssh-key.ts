import { chmod, rm, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Secret } from '../../lib/log.js';

/**
 * SYNC_POLICY_REPO_SSH_KEY as a file for ssh: the path itself, or, where the setting is the text of a key, `keyFile`, which is
 * written with mode 0600. In a text without newlines an underscore stands for one (protocol-facts 5.1).
 */
export async function provideSshKey(key: Secret, keyFile: string): Promise<string> {
  const value = key.reveal().trim();
  if (!value.includes('PRIVATE KEY')) return resolve(value);
  const text = value.includes('\n') ? value : value.replaceAll('_', '\n');
  // Made anew: `mode` counts only for a new file, and ssh refuses a key that others can read.
  await rm(keyFile, { force: true });
  await writeFile(keyFile, `${text}\n`, { mode: 0o600, flag: 'wx' });
  await chmod(keyFile, 0o600);
  return keyFile;
}

/**
 * GIT_SSH_COMMAND: this key only, never a question; a host is trusted at the first contact and must stay the same.
 */
export function sshCommand(keyFile: string): string {
  const quoted = `'${keyFile.replaceAll("'", "'\\''")}'`;
  return `ssh -i ${quoted} -o IdentitiesOnly=yes -o StrictHostKeyChecking=accept-new -o BatchMode=yes`;
}
