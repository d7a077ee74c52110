import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { request } from 'undici';
import * as z from 'zod';
import { CLIENT_SETTINGS, type ClientSettings } from '../../../client/options.js';
import { createDispatcher } from '../../../client/outbound/dispatcher.js';
import { errorCode, errorText } from '../../../lib/errors.js';
import { connectText } from '../../../lib/net/connect-failure.js';
import { pemFile } from '../../../lib/net/tls.js';
import { redactUrl, silentLogger } from '../../../lib/observe/log.js';
import { childEnv } from '../../../lib/run/child-env.js';
import type { BackboneFacts } from '../../../server/log/backbone/inspect-backbone.js';
import { LOG_FILE } from '../../../server/log/sqlite/sqlite-store.js';
import type { ServerOptions } from '../../../server/options.js';
import { bundleLocation } from '../../../server/policy/source/bundle-api-config.js';
import { createBundleSource } from '../../../server/policy/source/bundle-api-source.js';
import { bundleVerification } from '../../../server/policy/source/bundle-signature.js';
import { checkBaseEntries } from '../../../server/publish/update-rules.js';
import { refusedFromBytes, refusedUpdates } from '../../../wire/refused-updates.js';
import { errorFinding, type Finding, okFinding, warningFinding } from '../../kit/findings.js';
import { loadProgramSettings } from '../../kit/program-settings.js';
import { type Check, runChecks } from './checks.js';
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
    {
      ...{ id: 'data_sources', subject: 'data sources' },
      remedy: 'Correct SYNC_DATA_CONFIG_SOURCES.',
      run: async () => {
        checkBaseEntries(dataSources);
        return [];
      },
    },
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
    memory: z.object({ entries: z.number(), bytes: z.number(), limit_bytes: z.number() }).partial().optional(),
    backbone: z.object({ up: z.boolean(), reason: z.string().optional() }).optional(),
  }),
  state_files: z.array(z.object({ file: z.string(), reason: z.string() }).partial()).default([]),
});

type Health = z.infer<typeof health>;

/**
 * What does not work at a server, by its `/healthcheck`; it tells reasons to holders of a token
 * only, if it has keys.
 */
function healthTrouble(answer: object): string | undefined {
  const { success, data } = health.safeParse(answer);
  if (!success || data.status === 'ok') return undefined;
  const { policy, update_log: log, state_files: files } = data;
  const why = [
    ...(log.error === undefined ? [] : [log.error]),
    ...(log.refuses === undefined
      ? []
      : [because(`its update log takes no ${refusedUpdates(log.refuses.from_bytes)}`, log.refuses.reason)]),
    ...(log.memory === undefined ? [] : [takesMemory(log.memory)]),
    ...(log.backbone?.up === false ? [because('the backbone is away', log.backbone.reason)] : []),
    ...files.map(({ file = 'a file of its state', reason }) => because(`${file} cannot be written`, reason)),
    ...(policy.error == null && policy.failing_since === undefined && policy.code === undefined
      ? []
      : [because('the policy source fails', policy.error ?? policy.code)]),
  ];
  return `its status is ${data.status}${why.length === 0 ? '' : `: ${why.join('; ')}`}`.slice(0, TROUBLE_CHARS);
}

function takesMemory({ entries, bytes, limit_bytes: limit }: NonNullable<Health['update_log']['memory']>): string {
  if (entries === undefined || bytes === undefined || limit === undefined)
    return 'its live entries hardly fit its memory';
  const mib = (size: number): string => Math.round(size / 1024 / 1024).toLocaleString('en-US');
  return `its ${entries.toLocaleString('en-US')} live entries take ${mib(bytes)} MiB of memory, of ${mib(limit)} that there are for them`;
}

function because(what: string, reason: string | undefined): string {
  return reason === undefined ? what : `${what}: ${reason}`;
}

/**
 * How a client with this environment reads data sources; with the defaults where that is not valid.
 */
function clientSettings(env: NodeJS.ProcessEnv): ClientSettings {
  try {
    return loadProgramSettings('client', CLIENT_SETTINGS, { env }).values;
  } catch {
    // `doctor client` says what is wrong with them.
    return loadProgramSettings('client', CLIENT_SETTINGS, { env: {} }).values;
  }
}

const LOG = { id: 'update_log', subject: 'update log' };

/** Whether the backbone answers, accepts the credentials, and keeps what it acknowledges. */
function backboneCheck(settings: ServerOptions): Check {
  return {
    ...LOG,
    remedy: 'Check SYNC_BROADCAST_URI, and that this machine reaches the backbone.',
    run: async () => [await logFinding(settings)],
  };
}

async function logFinding({
  broadcastUri: uri,
  broadcastChannelName: name,
  broadcastNatsSyncAlways: natsSyncAlways,
}: ServerOptions): Promise<Finding> {
  const { id, subject } = LOG;
  if (uri === undefined) return okFinding(id, subject, 'in the state folder, durable; of this server alone');
  const { inspectBackbone } = await import('../../../server/log/backbone/inspect-backbone.js');
  let facts: BackboneFacts;
  try {
    facts = await inspectBackbone({ uri, name, natsSyncAlways });
  } catch (error) {
    if (errorCode(error) !== 'backbone_unavailable') throw error;
    const remedy = 'Start it, or correct address, user and password of SYNC_BROADCAST_URI.';
    return errorFinding(id, subject, errorText(error), remedy);
  }
  const { what, durability } = facts;
  if (durability === undefined) {
    const message = `${what} answers; the log is made by the first server, and its durability is known then`;
    return okFinding(id, subject, message);
  }
  if (durability.level === 'durable') return okFinding(id, subject, `${what}, durable`);
  const message = `${what} may lose what it acknowledged: ${durability.reason}`;
  return warningFinding(id, subject, message, 'Configure the backbone as docs/how-to/several-instances.md has it.');
}

/**
 * Reads the bundle of the bundle server once, as the server does, into a folder that is removed.
 */
function bundleServerCheck(
  settings: ServerOptions,
  { env, limitMs }: { env: NodeJS.ProcessEnv; limitMs: number },
): Check {
  const [id, subject] = ['policy_bundle', 'policy bundle'];
  return {
    ...{ id, subject },
    remedy: 'Let this machine reach SYNC_POLICY_BUNDLE_URL, or give it more time with --timeout.',
    run: async (signal) => {
      const location = bundleLocation(settings);
      const folder = await mkdtemp(join(tmpdir(), 'policysync-doctor-'));
      try {
        const source = createBundleSource(
          {
            location,
            repoPath: join(folder, 'bundle'),
            isOwnFolder: true,
            limitBytes: settings.policyBundleLimitBytes,
            unpackedBytes: settings.policyBundleLimitUnpackedBytes,
            entries: settings.policyBundleLimitEntries,
            verification: bundleVerification(settings),
            fetchTimeoutMs: limitMs,
            env: childEnv(env, 'git', settings.policyRepoEnv),
          },
          { log: silentLogger() },
        );
        const commit = await source.fetch(signal);
        return [okFinding(id, subject, `${location.display} is a bundle that can be served (${commit.slice(0, 10)})`)];
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
  };
}

const API = { id: 'data_source_api', subject: 'data source API' };

/**
 * Whether the API that lists entries per client answers. It asks for a client's token, which a
 * server has not.
 */
function externalSourceCheck(url: string, { env, limitMs }: { env: NodeJS.ProcessEnv; limitMs: number }): Check {
  return {
    ...API,
    remedy: `Let this machine reach ${redactUrl(url)}.`,
    run: async (signal) => [await apiFinding(url, env, limitMs, signal)],
  };
}

async function apiFinding(url: string, env: NodeJS.ProcessEnv, limitMs: number, signal: AbortSignal): Promise<Finding> {
  const { id, subject } = API;
  const place = redactUrl(url);
  const dispatcher = createDispatcher(limitMs, env);
  try {
    const { statusCode: status, body } = await request(url, { dispatcher, signal });
    await body.dump();
    if (status < 400 || status === 401 || status === 403)
      return okFinding(id, subject, `${place} answers with ${status}`);
    const remedy = 'Correct external_source_url of SYNC_DATA_CONFIG_SOURCES, or repair the API.';
    return errorFinding(id, subject, `${place} answers with ${status}`, remedy);
  } catch (error) {
    signal.throwIfAborted();
    const message = `${place} does not answer: ${connectText(error, 'NODE_EXTRA_CA_CERTS')}`;
    return errorFinding(
      id,
      subject,
      message,
      'Correct external_source_url of SYNC_DATA_CONFIG_SOURCES, or start the API.',
    );
  } finally {
    await dispatcher.destroy();
  }
}
