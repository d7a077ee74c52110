import { request } from 'undici';
import { createDispatcher } from '../../client/outbound/dispatcher.js';
import { connectText } from '../../lib/connect-failure.js';
import { redactUrl } from '../../lib/log.js';
import { errorFinding, type Finding, okFinding } from '../findings.js';
import type { Check } from './checks.js';

const API = { id: 'data_source_api', subject: 'data source API' };

/** Whether the API that lists entries per client answers. It asks for a client's token, which a server has not. */
export function externalSourceCheck(url: string, { env, limitMs }: { env: NodeJS.ProcessEnv; limitMs: number }): Check {
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
