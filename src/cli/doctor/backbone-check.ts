import { errorCode, errorText } from '../../lib/errors.js';
import type { BackboneFacts } from '../../server/backbone/inspect-backbone.js';
import type { ServerOptions } from '../../server/options.js';
import { errorFinding, type Finding, okFinding, warningFinding } from '../findings.js';
import type { Check } from './checks.js';

const LOG = { id: 'update_log', subject: 'update log' };

/** Whether the backbone answers, accepts the credentials, and keeps what it acknowledges. */
export function backboneCheck(settings: ServerOptions): Check {
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
  const { inspectBackbone } = await import('../../server/backbone/inspect-backbone.js');
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
  return warningFinding(id, subject, message, 'Configure the backbone as docs/backbone.md has it.');
}
