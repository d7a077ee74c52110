import { outermost } from '../../../lib/json/path-tree.js';
import type { DocPath } from '../../../wire/doc-path.js';
import { packageLine, regoPackage } from '../../../wire/rego-package.js';
import type { PolicySet } from '../engine.js';

/** The packages of a policy as roots of an OPA bundle, without those that lie below another. */
export function packageRoots(policy: PolicySet): DocPath[] {
  return outermost([...policy.modules.values()].flatMap((rego) => asRoot(regoPackage(rego))));
}

/** A package of a policy: its place among the roots, and where the policy declares it. */
export interface PackagePlace {
  readonly path: DocPath;
  readonly file: string;
  readonly row: number;
}

/** The packages of a policy, by module. */
export function packagePlaces({ modules }: PolicySet): PackagePlace[] {
  return [...modules].flatMap(([file, rego]) =>
    asRoot(regoPackage(rego)).map((path) => ({ path, file, row: packageLine(rego) })),
  );
}

/**
 * The roots of an OPA bundle with this policy: its packages, and the places of documents that the
 * bundle before had and that are still wanted, each without what lies below another. OPA refuses a
 * bundle whose roots overlap.
 */
export function bundleRoots(policy: PolicySet, held: readonly DocPath[]): DocPath[] {
  return outermost([...packageRoots(policy), ...held.flatMap(asRoot)]);
}

/**
 * The path as OPA can name it: it splits roots at `/` and reads percent-escapes in them, so a
 * segment with one of the two is owned from above.
 */
function asRoot(path: DocPath | undefined): DocPath[] {
  if (path === undefined) return [];
  const unnameable = path.findIndex((segment) => /[/%]/.test(segment));
  const root = unnameable < 0 ? path : path.slice(0, unnameable);
  return root.length === 0 ? [] : [root];
}

/**
 * At most `most` roots that own what these own: names at the top with many of them have one, which
 * owns what lies beside them, too. OPA compares each root of a bundle with each other one and with
 * each module, and for each rule below a root that is not at the top it copies all documents beside
 * that root. More than `most` where there are as many names, or where something is to stay `apart`.
 */
export function groupedRoots(
  roots: readonly DocPath[],
  { most, apart }: { readonly most: number; readonly apart: readonly DocPath[] },
): readonly DocPath[] {
  if (roots.length <= most) return roots;
  const byName = new Map<string, DocPath[]>();
  for (const root of roots) {
    const [name = ''] = root;
    const own = byName.get(name);
    if (own === undefined) byName.set(name, [root]);
    else own.push(root);
  }
  let count = byName.size;
  const grouped: DocPath[] = [];
  for (const [name, own] of [...byName].sort(([, a], [, b]) => a.length - b.length)) {
    const isNear = apart.some(([other]) => other === name);
    const stays = isNear || count - 1 + own.length <= most || own.length === 1;
    if (stays) count += own.length - 1;
    for (const root of stays ? own : [[name]]) grouped.push(root);
  }
  return grouped;
}
