import type { DocPath } from '../../wire/doc-path.js';

/** The paths of a list that lie below no other path of it, each once. */
export function outermost(paths: readonly DocPath[]): DocPath[] {
  const sorted = [...paths].sort((a, b) => a.length - b.length);
  const kept: DocPath[] = [];
  const seen = new Set<string>();
  for (const path of sorted) {
    let covered = false;
    for (let length = 0; length <= path.length && !covered; length++) {
      covered = seen.has(JSON.stringify(path.slice(0, length)));
    }
    if (covered) continue;
    seen.add(JSON.stringify(path));
    kept.push(path);
  }
  return kept;
}
