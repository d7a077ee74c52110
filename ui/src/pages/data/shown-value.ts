import { withoutTurns } from '../../../../src/fleet-rules/names-of-others.js';
/** What of `GET /data/log` is read here. */
export interface LogAnswer {
  readonly updates: readonly {
    readonly seq: number;
    readonly entries: readonly { readonly dst_path: string; readonly data?: unknown }[];
  }[];
}

/** Characters of a value that the page shows. */
const MOST = 50_000;

/** The value that an update wrote at a path; `gone`: the answer has another update. */
export function shownValue(
  { updates }: LogAnswer,
  { path, seq }: { readonly path: string; readonly seq: number },
): { kind: 'shown'; text: string; isCut: boolean } | { kind: 'gone' } {
  const update = updates.find((one) => one.seq === seq);
  // The last entry of an update at a path is the one that counts.
  const entry = update?.entries.findLast(
    ({ dst_path, data }) => data !== undefined && plainPath(dst_path) === plainPath(path),
  );
  if (entry === undefined) return { kind: 'gone' };
  const text = withoutTurns(JSON.stringify(entry.data, undefined, 2));
  return { kind: 'shown', text: text.slice(0, MOST), isCut: text.length > MOST };
}

/** A path without doubled, leading and trailing slashes and with its escapes read. */
function plainPath(path: string): string {
  return path
    .split('/')
    .filter((segment) => segment !== '')
    .map((segment) => {
      try {
        return decodeURIComponent(segment);
      } catch {
        return segment;
      }
    })
    .join('/');
}
