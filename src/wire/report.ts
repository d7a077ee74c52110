import * as z from 'zod';
import { list } from './lists.js';

/**
 * What a client reports about a data update or policy (specification "UpdateReport"; opal-protocol
 * P4.7). Both sides share the shape; reading is liberal, since OPAL's clients report to our servers
 * too.
 */

/** Most entries of one report: the first load of a client may have many thousands. */
const MAX_REPORTS = 50_000;

const reportedEntry = z.object({
  url: z.string().default(''),
  dst_path: z.string().default(''),
  topics: list(z.string(), { max: 1_000 }).default([]),
  save_method: z.string().default('PUT'),
  inline_data: z.boolean().optional(),
});

/** The outcome of one entry. */
const entryReport = z.object({
  entry: reportedEntry,
  fetched: z.boolean().default(false),
  saved: z.boolean().default(false),
  hash: z.string().nullish(),
  /** Ours: a later update replaced the entry before it was written. */
  superseded: z.boolean().optional(),
});

/**
 * Body of `POST /data/callback_report` and of every callback. What it does not name is not read (it
 * may be secret).
 */
export const updateReport = z.object({
  update_id: z.string().nullish(),
  reports: list(entryReport, { max: MAX_REPORTS }).default([]),
  policy_hash: z.string().nullish(),
});

/** An entry as a report shows it: no header values, no request body, no inline data. */
export interface ReportedEntry {
  readonly url: string;
  readonly config: ReportedConfig | null;
  readonly topics: readonly string[];
  readonly dst_path: string;
  readonly save_method: string;
  /** True where the update carried the data itself. */
  readonly inline_data: boolean;
  /** Never the data: it may be secret, and receivers have `hash` to compare. */
  readonly data: null;
  /** As OPAL: for entries of the configuration only. */
  readonly periodic_update_interval?: number | null;
}

/** How an entry is fetched, as far as that is no secret. */
export interface ReportedConfig {
  readonly fetcher: string | null;
  /** Of HTTP alone. */
  readonly method?: string;
  /** Of HTTP alone: names as configured; every value is `***`. */
  readonly headers?: Readonly<Record<string, string>> | null;
}

/** The outcome of one entry. */
export interface EntryReport {
  readonly entry: ReportedEntry;
  readonly fetched: boolean;
  readonly saved: boolean;
  /** Of the data as fetched; null where nothing was fetched. */
  readonly hash: string | null;
  readonly superseded?: true;
}

/** A report as this project writes it; the order of the members is OPAL's. */
export interface UpdateReport {
  readonly update_id: string | null;
  readonly reports: readonly EntryReport[];
  readonly policy_hash: string | null;
  readonly user_data: Readonly<Record<string, never>>;
}
