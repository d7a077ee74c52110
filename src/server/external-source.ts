import { SyncError } from '../lib/errors.js';
import { redactUrl } from '../lib/log.js';
import { endpointOf, isLoopback } from '../lib/proxy.js';
import type { ServerDataSources } from '../wire/data.js';

/**
 * Clients are sent to the external data source with their token in the query, so it must be HTTPS (specification authentication.3). Plain
 * HTTP is taken for loopback hosts, or with SYNC_ALLOW_INSECURE_EXTERNAL_SOURCE. Throws `config_invalid`.
 */
export function checkExternalSource(
  sources: ServerDataSources | undefined,
  { allowInsecure }: { allowInsecure: boolean },
): void {
  if (sources === undefined || !('external_source_url' in sources) || allowInsecure) return;
  const url = new URL(sources.external_source_url);
  if (url.protocol === 'https:' || isLoopback(endpointOf(url).host)) return;
  throw new SyncError(
    'config_invalid',
    `SYNC_DATA_CONFIG_SOURCES: external_source_url must be https, since clients send their tokens there (is ${redactUrl(url.href)}); SYNC_ALLOW_INSECURE_EXTERNAL_SOURCE=true takes http all the same`,
  );
}
