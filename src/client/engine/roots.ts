import type { DocPath } from '../../wire/doc-path.js';
import { regoPackage } from '../../wire/rego-package.js';
import { outermost } from '../desired/path-index.js';
import type { PolicySet } from './engine.js';

/** The packages of a policy as roots of an OPA bundle, without those that lie below another. */
export function packageRoots(policy: PolicySet): DocPath[] {
  return outermost([...policy.modules.values()].flatMap((rego) => asRoot(regoPackage(rego))));
}

/**
 * The roots of an OPA bundle with this policy: its packages, and the places of documents that the bundle before had and
 * that are still wanted, each without what lies below another. OPA refuses a bundle whose roots overlap.
 */
export function bundleRoots(policy: PolicySet, held: readonly DocPath[]): DocPath[] {
  return outermost([...packageRoots(policy), ...held.flatMap(asRoot)]);
}

/**
 * The path as OPA can name it: it splits roots at `/` and reads percent-escapes in them, so a segment with one of the two
 * is owned from above.
 */
function asRoot(path: DocPath | undefined): DocPath[] {
  if (path === undefined) return [];
  const unnameable = path.findIndex((segment) => /[/%]/.test(segment));
  const root = unnameable < 0 ? path : path.slice(0, unnameable);
  return root.length === 0 ? [] : [root];
}
