/** Share of its letters in which a name may differ from one that is suggested for it. */
const MAX_DIFFERENCE = 0.35;

/**
 * The name that somebody probably meant: the same in another style of writing (`policyRepoUrl`,
 * `SYNC_POLICY_REPO_URL`), or one that differs in few letters. Undefined if there is none.
 */
export function similarName(name: string, names: readonly string[]): string | undefined {
  return similarNames(name, names)[0];
}

/** All that are as near as {@link similarName}. */
function similarNames(name: string, names: readonly string[]): string[] {
  const wanted = plain(name);
  let least = Number.POSITIVE_INFINITY;
  let best: string[] = [];
  for (const each of names) {
    const other = plain(each);
    const most = Math.min(least, Math.max(wanted.length, other.length) * MAX_DIFFERENCE);
    if (Math.abs(wanted.length - other.length) > most) continue;
    const distance = editDistance(wanted, other);
    if (distance > most) continue;
    if (distance < least) best = [];
    least = distance;
    best.push(each);
  }
  return best;
}

/** Most names that a hint has. */
const MAX_HINTS = 3;

/** Names, or other names by which things are called too, each with the one that a hint shows. */
export type HintNames = readonly string[] | ReadonlyMap<string, string>;

/** A hint that follows a message, or nothing: {@link meantNames}. */
export function didYouMean(name: string, names: HintNames): string {
  return hint(meantNames(name, names));
}

/** The hint that names what was probably meant. */
export function hint(meant: readonly string[]): string {
  return meant.length === 0 ? '' : `: did you mean ${meant.join(' or ')}?`;
}

/**
 * What was probably meant: the same name in another style, else the few that have all words of it,
 * else the similar one.
 */
export function meantNames(name: string, names: HintNames): string[] {
  const shown = shownNames(names);
  const near = nearNames(name, shown, { words: 1, share: 0 });
  if (near.length > 0) return near;
  const similar = similarNames(name, [...shown.keys()]).map((each) => shown.get(each) ?? each);
  return [...new Set(similar)].slice(0, MAX_HINTS);
}

/**
 * How many words a name has of another one that can hardly be another program's, and their share of
 * that.
 */
const SURE = { words: 2, share: 0.6 };
/** Letters by which it may differ, and their share of it. */
const SLIP = { letters: 3, share: 0.25 };

/**
 * What was meant for certain enough to refuse a name that may also belong to somebody else: the
 * same in another style, most words of it, or a slip of a few letters.
 */
export function surelyMeant(name: string, names: readonly string[]): string[] {
  const near = nearNames(name, shownNames(names), SURE);
  if (near.length > 0) return near;
  const wanted = plain(name);
  return similarNames(name, names)
    .filter((each) => {
      const most = Math.min(SLIP.letters, Math.max(wanted.length, plain(each).length) * SLIP.share);
      return editDistance(wanted, plain(each)) <= most;
    })
    .slice(0, MAX_HINTS);
}

function shownNames(names: HintNames): ReadonlyMap<string, string> {
  return names instanceof Map ? names : new Map([...(names as readonly string[])].map((name) => [name, name]));
}

/**
 * The same in another style, else up to {@link MAX_HINTS} of which a name has so many words, and no
 * other word.
 */
function nearNames(
  name: string,
  shown: ReadonlyMap<string, string>,
  least: { readonly words: number; readonly share: number },
): string[] {
  const wanted = plain(name);
  const found = (is: (other: string) => boolean): string[] => [
    ...new Set([...shown].filter(([other]) => is(other)).map(([, text]) => text)),
  ];
  const same = wanted === '' ? [] : found((other) => plain(other) === wanted);
  if (same.length > 0) return same.slice(0, MAX_HINTS);
  const wantedWords = words(name);
  if (wantedWords.length < least.words) return [];
  const whole = found((other) => words(other).length === wantedWords.length && hasWords(words(other), wantedWords));
  if (whole.length > 0 && whole.length <= MAX_HINTS) return whole;
  const longer = found((other) => {
    const all = words(other);
    return wantedWords.length >= all.length * least.share && hasWords(all, wantedWords);
  });
  return longer.length > MAX_HINTS ? [] : longer;
}

/**
 * Whether a name has all words of a shorter one, as `server-bind-port` has those of `server-prot`.
 */
function hasWords(all: readonly string[], wanted: readonly string[]): boolean {
  return wanted.every((word) => all.some((other) => isSameWord(word, other)));
}

/** Shortest word that may differ in a letter. */
const LONG_WORD = 4;

function isSameWord(word: string, other: string): boolean {
  if (word === other) return true;
  const [shorter, longer] = [Math.min(word.length, other.length), Math.max(word.length, other.length)];
  return shorter >= LONG_WORD && longer - shorter <= 1 && editDistance(word, other) <= 1;
}

function words(name: string): string[] {
  return withoutPrefix(name)
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1-$2')
    .toLowerCase()
    .split(/[_-]/)
    .filter((word) => word !== '');
}

function plain(name: string): string {
  return withoutPrefix(name).replaceAll(/[_-]/g, '').toLowerCase();
}

function withoutPrefix(name: string): string {
  return name.replace(/^-+/, '').replace(/^(?:SYNC|OPAL)_/, '');
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
