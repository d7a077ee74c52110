import { createHash } from 'node:crypto';
import { pythonJson } from './python-json.js';

/**
 * SYNC_REPORT_HASH_FORM. `bytes`: SHA-256 of the bytes as they were fetched, which the client has anyway. `opal`: of the
 * parsed value as Python prints it, so that reports of both kinds of clients compare.
 */
export const HASH_FORMS = ['bytes', 'opal'] as const;
export type HashForm = (typeof HASH_FORMS)[number];

/** Larger documents get no hash in OPAL's form: it takes the whole text in memory, several times. */
export const OPAL_HASH_LIMIT_BYTES = 16 * 1024 * 1024;

/** A document that can be hashed: what the client has of a fetched one. */
export interface Hashable {
  /** Hex SHA-256 of its bytes. */
  readonly hash: string;
  readonly sizeBytes: number;
  text(): string;
}

/** The hash that a report shows of a document, 64 hex digits; null where the form cannot be had for it. */
export function reportHash(form: HashForm, body: Hashable): string | null {
  if (form === 'bytes') return body.hash;
  if (body.sizeBytes > OPAL_HASH_LIMIT_BYTES) return null;
  return opalHash(body.text());
}

/**
 * OPAL's hash of a JSON text (opal-protocol P4.7): hex SHA-256 of a string's own characters, and of what `json.dumps`
 * prints for everything else.
 */
export function opalHash(text: string): string {
  const trimmed = text.trim();
  const hashed = trimmed.startsWith('"') ? (JSON.parse(trimmed) as string) : pythonJson(trimmed);
  return createHash('sha256').update(hashed).digest('hex');
}
