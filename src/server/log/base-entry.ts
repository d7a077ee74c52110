import { JsonText, printJson } from '../../lib/json-text.js';
import { type PeerEntry, sourceIdentity } from '../../wire/data.js';
import { docPathText, parseDocPath } from '../../wire/doc-path.js';

/**
 * The identity of a base entry (design D18): url, method, body, dst_path, topics and save_method; headers may change. Inline data counts
 * as body, so that the entry at a position never changes for clients that have read it.
 */
export function baseIdentity(entry: PeerEntry): string {
  return printJson([
    entry.url,
    ...sourceIdentity(entry.config),
    entry.data instanceof JsonText ? entry.data : null,
    docPathText(parseDocPath(entry.dst_path)),
    [...new Set(entry.topics)].sort(),
    entry.save_method,
  ]);
}
