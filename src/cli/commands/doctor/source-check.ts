import { rm } from 'node:fs/promises';
import { HttpProvider } from '../../../client/fetch/http-fetch.js';
import { shownUrl } from '../../../client/fetch/http-rules.js';
import { createPostgresProvider } from '../../../client/fetch/postgres-provider.js';
import { loadProviderModules } from '../../../client/fetch/provider.js';
import { createFetcher } from '../../../client/fetch/providers.js';
import { createSpool } from '../../../client/fetch/spool.js';
import type { ClientSettings } from '../../../client/options.js';
import { OutboundGate } from '../../../client/outbound/gate.js';
import { openOutbound } from '../../../client/outbound/outbound.js';
import { temporaryFolder } from '../../../client/temporary-folder.js';
import { silentLogger } from '../../../lib/observe/log.js';
import { isHttpFetcher, type PeerEntry } from '../../../wire/data.js';
import { docPathText, parseDocPath } from '../../../wire/doc-path.js';
import { type Finding, okFinding, warningFinding } from '../../kit/findings.js';
import { type Check, runChecks } from './checks.js';

const ID = 'data_source';
/** Maximum entries that are read. */
const READ_AT_MOST = 200;

/**
 * Reads each entry once, as a client with these settings does: with its headers, through the same
 * gate, and checked to be one JSON value. Entries with data of their own have no source.
 */
export async function sourceFindings(
  entries: readonly PeerEntry[],
  settings: ClientSettings,
  { env, limitMs }: { env: NodeJS.ProcessEnv; limitMs: number },
): Promise<Finding[]> {
  const remote = entries.filter(
    ({ url, data, save_method: method }) => method !== 'DELETE' && (url !== '' || data == null),
  );
  if (remote.length === 0)
    return [okFinding(`${ID}s`, 'data sources', 'no entry of the configuration is read from elsewhere')];
  const log = silentLogger();
  const dir = await temporaryFolder('policysync-doctor-');
  const outbound = await openOutbound(settings, { log, env });
  const { tls } = outbound;
  const gate = new OutboundGate(settings);
  const { fetchConcurrency: concurrency, fetchPerHost: perHost } = settings;
  const fetcher = createFetcher(
    { totalTimeoutMs: limitMs, concurrency, perHost },
    {
      providers: [
        new HttpProvider({ silenceTimeoutMs: Math.min(limitMs, settings.fetchTimeoutMs), env, tls, gate }),
        createPostgresProvider({ connectTimeoutMs: limitMs, statementTimeoutMs: limitMs, tls }),
        ...(await loadProviderModules(settings.fetchProviderModules)),
      ],
      spool: await createSpool({ dir, limitBytes: settings.fetchLimitBytes }),
      ...{ gate, log },
    },
  );
  const checkOf = ({ url, config, dst_path: path }: PeerEntry): Check => {
    const place = isHttpFetcher(config?.fetcher) ? shownUrl(url) : `${config?.fetcher} ${shownUrl(url)}`;
    const subject = `data source of ${docPathText(parseDocPath(path))}`;
    return {
      id: ID,
      subject,
      remedy: `Find out why ${place} is slow, or give it more time with --timeout.`,
      run: async (signal) => {
        const result = await fetcher.fetch({ url, config: config ?? null }, signal);
        if (result.outcome === 'unchanged') return [okFinding(ID, subject, `${place} answers`)];
        const { sizeBytes } = result.body;
        await result.body.dispose();
        return [okFinding(ID, subject, `${place} answers with ${sizeBytes} bytes of JSON`)];
      },
    };
  };
  try {
    const found = await runChecks(remote.slice(0, READ_AT_MOST).map(checkOf), limitMs);
    const more = remote.length - READ_AT_MOST;
    if (more <= 0) return found;
    const message = `${more} more entries were not read`;
    return [...found, warningFinding(`${ID}s`, 'data sources', message, 'Watch `policysync status` for the rest.')];
  } finally {
    await fetcher.close();
    outbound.close();
    await rm(dir, { recursive: true, force: true });
  }
}
