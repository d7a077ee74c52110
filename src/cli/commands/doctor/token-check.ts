import { clientAuthenticator } from '../../../auth/security.js';
import type { ClientSettings } from '../../../client/options.js';
import { OutboundGate } from '../../../client/outbound/gate.js';
import { openOutbound } from '../../../client/outbound/outbound.js';
import { ServerApi } from '../../../client/server-api.js';
import { errorText, SyncError } from '../../../lib/errors.js';
import { silentLogger } from '../../../lib/observe/log.js';
import type { PeerEntry } from '../../../wire/data.js';
import { errorFinding, type Finding, failedFinding, okFinding, warningFinding } from '../../kit/findings.js';
import { tokenFindings } from './token-facts.js';

const TOKEN = { id: 'client_token', subject: 'token' };
const CONFIG = { id: 'data_configuration', subject: 'data configuration' };

/** What the server says to the token of the client, and the entries that it hands out. */
export interface TokenAnswer {
  readonly findings: readonly Finding[];
  readonly entries: readonly PeerEntry[];
}

/**
 * Judges the token by what it says, by the public key where the client has one, and by what the
 * server says to it.
 */
export async function checkToken(
  settings: ClientSettings,
  { env, limitMs }: { env: NodeJS.ProcessEnv; limitMs: number },
  signal: AbortSignal,
): Promise<TokenAnswer> {
  const { id, subject } = TOKEN;
  const token = settings.clientToken;
  const own = token === undefined ? [] : await ownFindings(settings);
  const outbound = await openOutbound(settings, { log: silentLogger(), env });
  const api = new ServerApi({
    serverUrl: settings.serverUrl,
    dataConfigUrl: settings.dataConfigUrl,
    token,
    policyDirs: settings.policyDirs,
    limitBytes: settings.serverAnswerLimitBytes,
    dispatcher: outbound.dispatcher(limitMs),
    gated: outbound.dispatcher(limitMs, new OutboundGate(settings)),
  });
  try {
    const { entries } = await api.baseConfig(signal);
    const shown = `${entries.length} ${entries.length === 1 ? 'entry' : 'entries'}`;
    const config = okFinding(CONFIG.id, CONFIG.subject, `the server hands out ${shown}`);
    if (token !== undefined) return { findings: [...own, config], entries };
    return { findings: [okFinding(id, subject, 'none is sent, and the server asks for none'), config], entries };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof SyncError) || error.code !== 'token_refused') {
      return { findings: [...own, failedFinding(CONFIG.id, CONFIG.subject, error)], entries: [] };
    }
    const bad = own.filter(({ level }) => level === 'error');
    if (bad.length > 0) return { findings: bad, entries: [] };
    const remedy = 'Issue one with `policysync token --type client`, and set SYNC_CLIENT_TOKEN.';
    const message = token === undefined ? 'none is set, and the server asks for one' : errorText(error);
    return { findings: [errorFinding(id, subject, message, remedy)], entries: [] };
  } finally {
    outbound.close();
    await api.close();
  }
}

/** What the token says of itself, and whether the client's own key verifies it. */
async function ownFindings(settings: ClientSettings): Promise<Finding[]> {
  const { id, subject } = TOKEN;
  const { clientToken, dataTopics } = settings;
  const findings = tokenFindings(clientToken?.reveal() ?? '', dataTopics);
  if (settings.authPublicKey === undefined || findings.some(({ level }) => level === 'error')) return findings;
  try {
    const authenticator = await clientAuthenticator(settings);
    await authenticator.authenticate(`Bearer ${clientToken?.reveal()}`);
    return findings;
  } catch (error) {
    if (error instanceof SyncError && error.code === 'config_invalid') return findings; // a finding of its own
    const message = `SYNC_AUTH_PUBLIC_KEY does not verify SYNC_CLIENT_TOKEN: ${errorText(error)}`;
    const remedy =
      'Give the client the public key, algorithm, audience and issuer of the server that issued the token.';
    return [warningFinding(id, subject, message, remedy)];
  }
}
