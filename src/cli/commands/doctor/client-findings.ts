import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname } from 'node:path';
import { clientAuthenticator } from '../../../auth/security.js';
import { selectEngine } from '../../../client/engine/engine-kind.js';
import { listenAddress, splitAddress } from '../../../client/engine/opa/opa-args.js';
import { createSpool } from '../../../client/fetch/spool.js';
import { backupPath } from '../../../client/offline/backup.js';
import { disposeDocuments, readBackup } from '../../../client/offline/backup-reader.js';
import type { ClientSettings } from '../../../client/options.js';
import { idleTrust } from '../../../client/outbound/outbound.js';
import { temporaryFolder } from '../../../client/temporary-folder.js';
import { errorText } from '../../../lib/errors.js';
import { pemFile } from '../../../lib/net/tls.js';
import type { PeerEntry } from '../../../wire/data.js';
import { errorFinding, type Finding, okFinding, warningFinding } from '../../kit/findings.js';
import { type Check, runChecks } from './checks.js';
import { engineCheck } from './engine-check.js';
import { folderCheck } from './folder-check.js';
import { authenticationOff } from './key-check.js';
import { portCheck } from './port-check.js';
import { serverAddressCheck } from './server-address-check.js';
import type { DoctorContext } from './server-findings.js';
import { sourceFindings } from './source-check.js';
import { listenerTlsCheck } from './tls-check.js';
import { checkToken } from './token-check.js';

/**
 * Checks all that a client with these settings needs: on its machine, and of server and data
 * sources. Changes nothing.
 */
export async function clientFindings(settings: ClientSettings, context: DoctorContext): Promise<Finding[]> {
  const local = runChecks(clientChecks(settings, context), context.limitMs);
  const [remote, here] = await Promise.all([remoteFindings(settings, context), local]);
  return [...trustFindings(settings), ...remote, ...here];
}

/** Before the server, whose certificate may be refused for it. */
function trustFindings(settings: ClientSettings): Finding[] {
  const idle = idleTrust(settings);
  return idle === undefined ? [] : [warningFinding('client_authority', 'trusted authority', idle.message, idle.remedy)];
}

/**
 * The server first; then the token, if it answers; then the sources of the entries that the token
 * gets.
 */
async function remoteFindings(settings: ClientSettings, context: DoctorContext): Promise<Finding[]> {
  const { limitMs } = context;
  const server = await runChecks([serverAddressCheck(settings, context)], limitMs);
  if (server.some(({ id, level }) => id === 'server' && level === 'error')) return server;
  let entries: readonly PeerEntry[] = [];
  const tokenCheck: Check = {
    ...{ id: 'client_token', subject: 'token' },
    remedy: 'The server is slow: try again, or give it more time with --timeout.',
    run: async (signal) => {
      const answer = await checkToken(settings, context, signal);
      entries = answer.entries;
      return answer.findings;
    },
  };
  const token = await runChecks([tokenCheck], limitMs);
  const isOurs = ({ topics }: PeerEntry): boolean => topics.some((topic) => settings.dataTopics.includes(topic));
  const sources = settings.dataUpdaterEnabled ? entries.filter(isOurs) : [];
  return [...server, ...token, ...(sources.length === 0 ? [] : await sourceFindings(sources, settings, context))];
}

function clientChecks(settings: ClientSettings, context: DoctorContext): Check[] {
  const { host, port } = settings;
  const cert = pemFile('SYNC_CLIENT_API_TLS_CERT_FILE', settings.apiTlsCertFile);
  const key = pemFile('SYNC_CLIENT_API_TLS_KEY_FILE', settings.apiTlsKeyFile);
  const ca = pemFile('SYNC_CLIENT_API_TLS_CA_FILE', settings.apiTlsCaFile);
  const backup = backupPath(settings, context.env);
  return [
    engineCheck(settings, context),
    ...enginePort(settings),
    portCheck({
      ...{ id: 'client_port', subject: 'port of the client API', host, port, tls: cert !== undefined },
      settings: 'SYNC_CLIENT_API_SERVER_HOST and SYNC_CLIENT_API_SERVER_PORT',
      ours: { what: 'the sync client', path: '/healthy', isOurs: (answer) => 'engine' in answer && 'policy' in answer },
    }),
    apiKeyCheck(settings),
    listenerTlsCheck({
      ...{ id: 'client_tls', subject: 'TLS of the client API', host },
      files: { cert, key, ca },
      settings: 'SYNC_CLIENT_API_TLS_CERT_FILE and SYNC_CLIENT_API_TLS_KEY_FILE',
    }),
    ...(backup === undefined
      ? []
      : [
          folderCheck({
            ...{
              id: 'backup_folder',
              subject: 'backup folder',
              folder: dirname(backup),
              setting: 'SYNC_STORE_BACKUP_PATH',
            },
          }),
          backupCheck(backup),
        ]),
    spoolCheck(),
  ];
}

/** The address of an engine that the client runs itself. */
function enginePort(settings: ClientSettings): Check[] {
  const kind = selectEngine(settings)?.kind;
  const place = splitAddress(
    listenAddress({ engineUrl: settings.engineUrl, config: settings.inlineEngineConfig ?? {} }),
  );
  if (kind === 'external' || place === undefined) return [];
  return [
    portCheck({
      ...{ id: 'engine_port', subject: 'port of the engine', port: place.port },
      // OPA takes the IPv4 address of localhost.
      host: place.host === undefined ? '0.0.0.0' : place.host === 'localhost' ? '127.0.0.1' : place.host,
      tls: settings.engineUrl.startsWith('https:'),
      settings: 'SYNC_POLICY_STORE_URL',
      ours: {
        what: 'an OPA',
        path: '/health',
        isOurs: (answer) => Object.keys(answer).length === 0 || 'code' in answer,
      },
    }),
  ];
}

function apiKeyCheck(settings: ClientSettings): Check {
  const [id, subject] = ['client_keys', 'key of the client API'];
  return {
    ...{ id, subject },
    remedy: 'Check that the file of SYNC_AUTH_PUBLIC_KEY can be read.',
    run: async () => {
      if (settings.authPublicKey === undefined) {
        return [authenticationOff(id, subject, settings.host, 'SYNC_AUTH_PUBLIC_KEY')];
      }
      try {
        await clientAuthenticator(settings);
        return [okFinding(id, subject, `${settings.authAlgorithm}: tokens are verified by SYNC_AUTH_PUBLIC_KEY`)];
      } catch (error) {
        const remedy = 'Set SYNC_AUTH_PUBLIC_KEY and SYNC_AUTH_JWT_ALGORITHM to those of the server.';
        return [errorFinding(id, subject, errorText(error), remedy)];
      }
    },
  };
}

/** Fetched documents are kept among the temporary files; each client has a private folder there. */
function spoolCheck(): Check {
  const folder = tmpdir();
  const about = { id: 'temporary_files', subject: 'temporary files', setting: 'TMPDIR' };
  return folderCheck({ ...about, folder, isShared: true });
}

/** Whether the backup of offline mode can be used: it is read to its last byte. */
function backupCheck(path: string): Check {
  const [id, subject] = ['backup', 'backup'];
  return {
    ...{ id, subject },
    remedy: 'It is large: give the check more time with --timeout.',
    run: async (signal) => {
      const dir = await temporaryFolder('policysync-doctor-');
      try {
        const spool = await createSpool({ dir, limitBytes: Number.MAX_SAFE_INTEGER });
        const content = await readBackup(path, spool, signal);
        if (content === undefined)
          return [okFinding(id, subject, 'there is none yet: the client writes it after its first load')];
        await disposeDocuments(content.documents);
        const made = new Date(content.createdMs).toISOString();
        return [okFinding(id, subject, `of ${made}, ${content.documents.length} documents`)];
      } catch (error) {
        signal.throwIfAborted();
        const remedy = `Start the client while the server can be reached: it writes a new one to ${path}.`;
        return [errorFinding(id, subject, errorText(error), remedy)];
      } finally {
        await rm(dir, { recursive: true, force: true });
      }
    },
  };
}
