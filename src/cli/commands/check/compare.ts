import type { TextFile } from '../../../checker/messages.js';
import { directoryOf } from '../../../server/policy/bundle/directories.js';
import type { PolicyBundle } from '../../../wire/bundle.js';
import { sameJson } from '../../../wire/same-json.js';

/**
 * How the files here differ from what a server serves: modules by path, data by document and its
 * place among several of a folder.
 */
export interface Difference {
  readonly same: number;
  readonly changed: readonly string[];
  readonly only_here: readonly string[];
  readonly only_there: readonly string[];
}

/**
 * Compares a bundle with the complete bundle of a server. Data is the same if it means the same
 * JSON value. Pure.
 */
export function compareBundles(
  here: { readonly modules: readonly TextFile[]; readonly data: readonly TextFile[] },
  there: Pick<PolicyBundle, 'policy_modules' | 'data_modules'>,
): Difference {
  const modules = compared(
    here.modules.map(({ path, text }) => [path, text]),
    there.policy_modules.map(({ path, rego }) => [path, rego]),
    (one, other) => one === other,
  );
  const data = compared(
    numbered(here.data.map(({ path, text }) => [directoryOf(path), text])),
    numbered(there.data_modules.map(({ path, data: text }) => [path, text])),
    sameJson,
  );
  return {
    same: modules.same + data.same,
    changed: [...modules.changed, ...data.changed],
    only_here: [...modules.only_here, ...data.only_here],
    only_there: [...modules.only_there, ...data.only_there],
  };
}

/** Documents by name: `data /users`, and `data /users (2)` for the second file of a folder. */
function numbered(data: readonly (readonly [string, string])[]): (readonly [string, string])[] {
  const seen = new Map<string, number>();
  return data.map(([folder, text]) => {
    const count = (seen.get(folder) ?? 0) + 1;
    seen.set(folder, count);
    const place = folder === '.' ? '/' : `/${folder}`;
    return [`data ${place}${count === 1 ? '' : ` (${count})`}`, text];
  });
}

function compared(
  here: readonly (readonly [string, string])[],
  there: readonly (readonly [string, string])[],
  isSame: (one: string, other: string) => boolean,
): Difference {
  const [ours, theirs] = [new Map(here), new Map(there)];
  const both = [...ours].flatMap(([name, text]) => {
    const other = theirs.get(name);
    return other === undefined ? [] : [{ name, isSame: isSame(text, other) }];
  });
  return {
    same: both.filter((file) => file.isSame).length,
    changed: both.filter((file) => !file.isSame).map(({ name }) => name),
    only_here: [...ours.keys()].filter((name) => !theirs.has(name)),
    only_there: [...theirs.keys()].filter((name) => !ours.has(name)),
  };
}
