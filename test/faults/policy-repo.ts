import { mkdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { gitRepoAt } from '../support/git-repo.js';
import type { Json } from './model.js';

/** The policy repository. */
export interface Policy {
  /** A good commit; answers its number. */
  commit(): Promise<number>;
  /** A commit that no engine takes. */
  commitBroken(): Promise<void>;
  /** The repository cannot be reached until `back`. */
  away(): Promise<void>;
  back(): Promise<void>;
  /** The number of a good commit. */
  numberOf(hash: string): number | undefined;
  /** Number and hash of the last good commit. */
  readonly last: { number: number; hash: string };
  /** The commits that no engine takes. */
  readonly broken: ReadonlySet<string>;
}

/** Static data of a commit, by folder. */
export function staticData(number: number): readonly { readonly path: string; readonly value: Json }[] {
  const leaf = { s: number };
  return [
    { path: '/static', value: { commit: number } },
    { path: '/t/r9', value: { a: { 0: leaf, 1: leaf }, b: { 0: leaf }, z: leaf } },
  ];
}

/** What the rules of a commit answer. */
export function ruleResults(number: number): Json {
  return { commit: number, seen: number };
}

/** A repository with a first commit, at `<dir>/policy.git`. */
export async function startPolicy(dir: string): Promise<Policy & { url: string }> {
  const path = join(dir, 'policy.git');
  const hidden = `${path}.away`;
  await mkdir(path, { recursive: true });
  const repo = await gitRepoAt(path);
  let last = { number: 0, hash: '' };
  const broken = new Set<string>();
  const numbers = new Map<string, number>();
  let isAway = false;
  const commit = async (): Promise<number> => {
    const number = last.number + 1;
    const data = staticData(number).map(({ path, value }) => [`${path.slice(1)}/data.json`, JSON.stringify(value)]);
    const hash = await repo.commit({
      'app.rego': `package app\nimport rego.v1\ncommit := ${number}\nseen := data.static.commit\n`,
      ...Object.fromEntries(data),
      'broken.rego': '# nothing is broken\npackage broken\n',
    });
    last = { number, hash };
    numbers.set(hash, number);
    return number;
  };
  await commit();
  return {
    url: repo.url,
    get last() {
      return last;
    },
    broken,
    numberOf: (hash) => numbers.get(hash),
    commit,
    commitBroken: async () => {
      broken.add(await repo.commit({ 'broken.rego': 'package broken\nimport rego.v1\nx := nothing(1)\n' }));
    },
    away: async () => {
      await rename(path, hidden);
      isAway = true;
    },
    back: async () => {
      if (isAway) await rename(hidden, path);
      isAway = false;
    },
  };
}
