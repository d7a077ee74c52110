import { createHash } from 'node:crypto';
import { JsonText, printJson } from '../../lib/json/json-text.js';
import { type PeerEntry, sourceIdentity } from '../../wire/data.js';
import { docPathText, parseDocPath } from '../../wire/doc-path.js';

/**
 * The identity of a base entry (design D18): url, method, body, dst_path, topics and save_method;
 * headers may change. Inline data counts as body, so that the entry at a position never changes for
 * clients that have read it.
 */
export function baseIdentity(entry: PeerEntry): string {
  const known = IDENTITIES.get(entry);
  if (known !== undefined) return known;
  const data = entry.data instanceof JsonText ? entry.data : undefined;
  const isLong = data !== undefined && data.text.length > LONG_DATA;
  const identity = printJson([
    entry.url,
    ...sourceIdentity(entry.config),
    isLong ? createHash('sha256').update(data.text).digest('hex') : null,
    isLong ? null : (data ?? null),
    docPathText(parseDocPath(entry.dst_path)),
    [...new Set(entry.topics)].sort(),
    entry.save_method,
  ]);
  IDENTITIES.set(entry, identity);
  return identity;
}

/**
 * Inline data with more characters count by their digest: identities are compared at every look at
 * the fold.
 */
const LONG_DATA = 1000;
/** An entry never changes. */
const IDENTITIES = new WeakMap<PeerEntry, string>();
