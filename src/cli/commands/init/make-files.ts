import { hasCredentials } from '../../../lib/net/url-credentials.js';
import { ownProgram } from '../demo/own-command.js';
import { composeFile } from './compose.js';
import type { NewFile } from './files.js';
import { KUBERNETES_SERVER, kubernetesFiles } from './kubernetes.js';
import type { Plan } from './plan.js';
import { ignoreAll, makeSecrets } from './secrets.js';
import { settingsFile } from './settings-file.js';
import { systemdFiles } from './systemd.js';
import { makeTrialTls } from './trial-tls.js';

/** Where the files go. */
export interface MakeContext {
  readonly env: NodeJS.ProcessEnv;
  /** Where editors find the JSON schema of the configuration file. */
  readonly schema: string | undefined;
}

/** Makes all files of a plan, in memory. */
export async function makeFiles(plan: Plan, { env, schema }: MakeContext): Promise<NewFile[]> {
  const secrets = plan.mode === 'network' ? await makeSecrets(plan.tokenSeconds) : [];
  const tls = plan.tls === 'trial' ? await makeTrialTls(namesOf(plan), env) : [];
  const settings: NewFile = {
    path: 'policysync.yaml',
    text: settingsFile(plan, { schema, secrets: true, state: true }),
    mode: hasCredentials(plan.repository) ? 0o600 : 0o644,
    about: 'settings of server and client',
  };
  const state = ignoreAll('state');
  const { targets } = plan;
  const owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  const made = [settings, state, ...secrets, ...tls];
  return [
    ...made,
    ...(targets.includes('compose') ? [composeFile(plan, owner)] : []),
    ...(targets.includes('kubernetes') ? await kubernetesFiles(plan, made) : []),
    ...(targets.includes('systemd') ? await systemdFiles(plan, { command: startCommand(), schema }) : []),
  ];
}

/** The names that a trial certificate is for. */
function namesOf({ serverName, targets }: Plan): string[] {
  const inNetworks = [
    ...(targets.includes('compose') ? ['server'] : []),
    ...(targets.includes('kubernetes') ? [KUBERNETES_SERVER] : []),
  ];
  return [...new Set([serverName, 'localhost', ...inNetworks, '127.0.0.1'])];
}

/** How this program is started, with absolute paths: a unit has no shell and no PATH of a user. */
function startCommand(): string[] {
  return [process.execPath, ownProgram()];
}
