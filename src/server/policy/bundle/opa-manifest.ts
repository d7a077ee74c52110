import * as z from 'zod';
import { parseJson } from '../../../lib/json/json.js';
import { jsonOrUndefined } from '../../../lib/json/json-text.js';

/** Where OPA looks for the manifest of a bundle, whatever SYNC_POLICY_REPO_MANIFEST_PATH says. */
export const OPA_MANIFEST = '.manifest';

/** Versions of Rego that a manifest may name. */
const VERSIONS: readonly number[] = [0, 1, 2];

/**
 * Characters of names that all patterns of a manifest may be compared with: a tenth of a second.
 */
const MAX_STEPS = 10_000_000;

const versions = z.looseObject({
  rego_version: z.int().nullish(),
  file_rego_versions: z.record(z.string(), z.int()).nullish(),
});

/** Whether a manifest is that of an OPA bundle: no path begins like a JSON object that is whole. */
export function isOpaManifest(text: string): boolean {
  return /^\s*\{/.test(text) && jsonOrUndefined(text) !== undefined;
}

/**
 * The version of Rego that the manifest of an OPA bundle declares for a module. OPA compares the
 * patterns with the names of an archive, which may begin with `/` or `./`; of several the first
 * counts, in the order of their characters. Throws an `Error` that completes a sentence which
 * begins with the manifest.
 */
export function declaredVersions(text: string): (path: string) => number | undefined {
  const { success, data } = versions.safeParse(parseJson(text));
  if (!success) throw new Error('has a rego_version or file_rego_versions that OPA cannot read');
  const { rego_version: all, file_rego_versions: byFile } = data;
  const rules = Object.entries(byFile ?? {}).sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  for (const version of [all ?? 0, ...rules.map(([, each]) => each)])
    if (!VERSIONS.includes(version)) throw new Error(`has the unknown rego_version ${version}`);
  const literal = new Map<string, number>();
  const globs: { readonly pattern: readonly GlobPart[]; readonly index: number }[] = [];
  for (const [index, [text]] of rules.entries()) {
    const pattern = compiledGlob(text);
    const plain = pattern.map((part) => (typeof part === 'string' ? undefined : part.char));
    if (plain.includes(undefined)) globs.push({ pattern, index });
    else if (!literal.has(plain.join(''))) literal.set(plain.join(''), index);
  }
  const steps = { left: MAX_STEPS };
  return (path) => {
    const names = [`/${path}`, path, `./${path}`];
    const named = names.flatMap((name) => literal.get(name) ?? []);
    const fitting = globs.find(({ pattern }) => names.some((name) => fits(pattern, name, steps)));
    const first = Math.min(...named, fitting?.index ?? rules.length);
    return rules[first]?.[1] ?? all ?? undefined;
  };
}

/** Characters that have to be there, or any one, or any number of any. */
type GlobPart = { readonly char: string } | 'one' | 'any';

/** A pattern of OPA, in which `*` also stands for slashes. */
function compiledGlob(pattern: string): readonly GlobPart[] {
  const parts: GlobPart[] = [];
  for (let at = 0; at < pattern.length; at++) {
    const char = pattern.charAt(at);
    if (char === '*') parts.push('any');
    else if (char === '?') parts.push('one');
    else if (char === '\\') parts.push({ char: pattern.charAt(++at) });
    else if ('[{'.includes(char))
      throw new Error(
        `has the pattern ${JSON.stringify(pattern)} in file_rego_versions: name the files, or use * and ?`,
      );
    else parts.push({ char });
  }
  return parts;
}

/**
 * Goes back to the last `any` alone, so that the time is bounded by the product of both lengths.
 */
function fits(pattern: readonly GlobPart[], text: string, steps: { left: number }): boolean {
  let [at, from] = [0, 0];
  let retry: { at: number; from: number } | undefined;
  while (from < text.length) {
    if (--steps.left < 0) throw new Error('has patterns in file_rego_versions that take too long: name the files');
    const part = pattern[at];
    if (part === 'any') {
      retry = { at: ++at, from };
    } else if (part === 'one' || (part !== undefined && part.char === text.charAt(from))) {
      at++;
      from++;
    } else if (retry === undefined) return false;
    else {
      retry = { at: retry.at, from: retry.from + 1 };
      ({ at, from } = retry);
    }
  }
  while (pattern[at] === 'any') at++;
  return at === pattern.length;
}
