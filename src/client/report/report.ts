import { redactUrl } from '../../lib/observe/log.js';
import { fetcherConfig, isHttpFetcher, type PeerEntry } from '../../wire/data.js';
import type { EntryReport, ReportedConfig, ReportedEntry, UpdateReport } from '../../wire/report.js';

/** Outcome of one entry of an update. */
export interface EntryResult {
  readonly entry: PeerEntry;
  readonly fetched: boolean;
  readonly saved: boolean;
  readonly hash: string | null;
  /** A later update replaced it before it was written. */
  readonly superseded: boolean;
}

/** The report on a data update. */
export function dataReport(updateId: string, outcomes: readonly EntryResult[]): UpdateReport {
  return { update_id: updateId, reports: outcomes.map(entryReport), policy_hash: null, user_data: {} };
}

/** The report on an applied policy. */
export function policyReport(hash: string): UpdateReport {
  return { update_id: null, reports: [], policy_hash: hash, user_data: {} };
}

function entryReport({ entry, fetched, saved, hash, superseded }: EntryResult): EntryReport {
  const outcome = { entry: reportedEntry(entry), fetched, saved, hash };
  return superseded ? { ...outcome, superseded } : outcome;
}

/**
 * The entry without its secrets. A callback is often a third party: it learns which entry this is,
 * and nothing that would let it read the source or the data. So members of `config` are listed one
 * by one, never copied.
 */
export function reportedEntry(entry: PeerEntry): ReportedEntry {
  const { url, config, topics, dst_path, save_method, data, periodic_update_interval: interval } = entry;
  return {
    url: publicUrl(url),
    config: config === null || config === undefined ? null : reportedConfig(config),
    topics,
    dst_path,
    save_method,
    inline_data: data !== null && data !== undefined,
    data: null,
    ...(interval === undefined ? {} : { periodic_update_interval: interval }),
  };
}

function reportedConfig(config: NonNullable<PeerEntry['config']>): ReportedConfig {
  const fetcher = config.fetcher ?? null;
  // The configuration of another provider has passwords and queries in places that only it knows.
  if (!isHttpFetcher(fetcher)) return { fetcher };
  const { method = 'get', headers } = fetcherConfig.parse(config);
  return { fetcher, method, headers: maskedHeaders(headers) };
}

/** Header names with `***` for each value; null for none. */
export function maskedHeaders(headers: Readonly<Record<string, string>> | null | undefined) {
  if (headers === null || headers === undefined) return null;
  return Object.fromEntries(Object.keys(headers).map((name) => [name, '***']));
}

/**
 * The URL as it was written where there is no secret in it; otherwise without credentials and
 * query.
 */
function publicUrl(url: string): string {
  const hidden = redactUrl(url);
  return hidden.includes('***') ? hidden : url;
}
