/** Share of its letters in which a name may differ from one that is suggested for it. */
const MAX_DIFFERENCE = 0.35;

/**
 * The name that somebody probably meant: the same in another style of writing (`policyRepoUrl`, `SYNC_POLICY_REPO_URL`), or one that
 * differs in few letters. Undefined if there is none.
 */
export function similarName(name: string, names: readonly string[]): string | undefined {
  const wanted = plain(name);
  let best: { name: string; distance: number } | undefined;
  for (const each of names) {
    const distance = editDistance(wanted, plain(each));
    if (distance > Math.max(wanted.length, plain(each).length) * MAX_DIFFERENCE) continue;
    if (best === undefined || distance < best.distance) best = { name: each, distance };
  }
  return best?.name;
}

/** Most names that a hint has. */
const MAX_HINTS = 3;

/** A hint that follows a message, or nothing: the similar name, else those that have all words of the wrong one. */
export function didYouMean(name: string, names: readonly string[]): string {
  const similar = similarName(name, names);
  const hints = similar === undefined ? longerNames(name, names) : [similar];
  return hints.length === 0 || hints.length > MAX_HINTS ? '' : `: did you mean ${hints.join(' or ')}?`;
}

/** Names with all words of a shorter one, as `server-bind-port` has those of `port`. */
function longerNames(name: string, names: readonly string[]): string[] {
  const wanted = words(name);
  return wanted.length === 0 ? [] : names.filter((each) => wanted.every((word) => words(each).includes(word)));
}

function words(name: string): string[] {
  return name
    .toLowerCase()
    .split(/[_-]/)
    .filter((word) => word !== '');
}

function plain(name: string): string {
  return name
    .replace(/^-+/, '')
    .replace(/^(?:SYNC|OPAL)_/, '')
    .replaceAll(/[_-]/g, '')
    .toLowerCase();
}

/** Letters to insert, delete, replace, or swap with the next one (optimal string alignment). */
function editDistance(from: string, to: string): number {
  let before: number[] = [];
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const isSame = from[i - 1] === to[j - 1];
      const isSwapped = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      next[j] = Math.min(
        at(row, j) + 1,
        at(next, j - 1) + 1,
        at(row, j - 1) + (isSame ? 0 : 1),
        isSwapped ? at(before, j - 2) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    [before, row] = [row, next];
  }
  return at(row, to.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}
