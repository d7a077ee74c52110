import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import * as z from 'zod';
import { CLIENT_SETTINGS, type ClientSettings } from '../../client/options.js';
import { pemFile } from '../../lib/tls.js';
import { LOG_FILE } from '../../server/log/sqlite-store.js';
import type { ServerOptions } from '../../server/options.js';
import { refusedFromBytes, refusedUpdates } from '../../wire/refused-updates.js';
import type { Finding } from '../findings.js';
import { loadProgramSettings } from '../program-settings.js';
import { backboneCheck } from './backbone-check.js';
import { bundleServerCheck } from './bundle-server-check.js';
import { type Check, runChecks } from './checks.js';
import { externalSourceCheck } from './external-source-check.js';
import { folderCheck } from './folder-check.js';
import { gitChecks } from './git-check.js';
import { keyCheck } from './key-check.js';
import { portCheck } from './port-check.js';
import { sourceFindings } from './source-check.js';
import { listenerTlsCheck } from './tls-check.js';

/** Longest text about a server that runs: some of it comes from others. */
const TROUBLE_CHARS = 1000;

/** Time limit of each check, and the environment of the program. */
export interface DoctorContext {
  readonly env: NodeJS.ProcessEnv;
  readonly limitMs: number;
}

/** Checks all that a server with these settings needs. Changes nothing. */
export async function serverFindings(settings: ServerOptions, context: DoctorContext): Promise<Finding[]> {
  const { dataSources } = settings;
  const local = runChecks(serverChecks(settings, context), context.limitMs);
  const entries = dataSources !== undefined && 'config' in dataSources ? dataSources.config.entries : [];
  const sources = entries.length === 0 ? [] : sourceFindings(entries, clientSettings(context.env), context);
  return [...(await local), ...(await sources)];
}

function serverChecks(settings: ServerOptions, context: DoctorContext): Check[] {
  const { host, port, dataSources } = settings;
  const cert = pemFile('SYNC_SERVER_TLS_CERT_FILE', settings.tlsCertFile);
  const key = pemFile('SYNC_SERVER_TLS_KEY_FILE', settings.tlsKeyFile);
  const ca = pemFile('SYNC_SERVER_TLS_CA_FILE', settings.tlsCaFile);
  return [
    ...(settings.policySourceType === 'API' ? [bundleServerCheck(settings, context)] : gitChecks(settings, context)),
    keyCheck(settings),
    listenerTlsCheck({
      ...{ id: 'server_tls', subject: 'TLS of the server', host },
      files: { cert, key, ca },
      settings: 'SYNC_SERVER_TLS_CERT_FILE and SYNC_SERVER_TLS_KEY_FILE',
    }),
    portCheck({
      ...{ id: 'server_port', subject: 'port of the server', host, port, tls: cert !== undefined },
      settings: 'SYNC_SERVER_HOST and SYNC_SERVER_BIND_PORT',
      ours: {
        what: 'the sync server',
        path: '/healthcheck',
        isOurs: (answer) => 'update_log' in answer,
        trouble: healthTrouble,
      },
      // A server opens it before it listens, also with a backbone.
      otherThan: () =>
        existsSync(join(settings.stateDir, LOG_FILE))
          ? undefined
          : `no server has used the state folder ${resolve(settings.stateDir)} so far`,
    }),
    folderCheck({
      ...{ id: 'server_state', subject: 'state folder', folder: settings.stateDir, setting: 'SYNC_STATE_DIR' },
    }),
    backboneCheck(settings),
    ...(dataSources !== undefined && 'external_source_url' in dataSources
      ? [externalSourceCheck(dataSources.external_source_url, context)]
      : []),
  ];
}

const health = z.object({
  status: z.string(),
  policy: z.object({ error: z.string().nullish(), code: z.string().optional(), failing_since: z.string().optional() }),
  update_log: z.object({
    error: z.string().optional(),
    refuses: z.object({ reason: z.string().optional(), from_bytes: refusedFromBytes }).optional(),
    backbone: z.object({ up: z.boolean(), reason: z.string().optional() }).optional(),
  }),
  state_files: z.array(z.object({ file: z.string(), reason: z.string() }).partial()).default([]),
});

/** What does not work at a server, by its `/healthcheck`; it tells reasons to holders of a token only, if it has keys. */
function healthTrouble(answer: object): string | undefined {
  const { success, data } = health.safeParse(answer);
  if (!success || data.status === 'ok') return undefined;
  const { policy, update_log: log, state_files: files } = data;
  const why = [
    ...(log.error === undefined ? [] : [log.error]),
    ...(log.refuses === undefined
      ? []
      : [because(`its update log takes no ${refusedUpdates(log.refuses.from_bytes)}`, log.refuses.reason)]),
    ...(log.backbone?.up === false ? [because('the backbone is away', log.backbone.reason)] : []),
    ...files.map(({ file = 'a file of its state', reason }) => because(`${file} cannot be written`, reason)),
    ...(policy.error == null && policy.failing_since === undefined && policy.code === undefined
      ? []
      : [because('the policy source fails', policy.error ?? policy.code)]),
  ];
  return `its status is ${data.status}${why.length === 0 ? '' : `: ${why.join('; ')}`}`.slice(0, TROUBLE_CHARS);
}

function because(what: string, reason: string | undefined): string {
  return reason === undefined ? what : `${what}: ${reason}`;
}

/** How a client with this environment reads data sources; with the defaults where that is not valid. */
function clientSettings(env: NodeJS.ProcessEnv): ClientSettings {
  try {
    return loadProgramSettings('client', CLIENT_SETTINGS, { env }).values;
  } catch {
    // `doctor client` says what is wrong with them.
    return loadProgramSettings('client', CLIENT_SETTINGS, { env: {} }).values;
  }
}
