import type { DocPath } from '../../wire/doc-path.js';
import { regoPackage } from '../../wire/rego-package.js';
import { outermost } from '../desired/outermost.js';
import type { PolicySet } from './engine.js';

/** The packages of a policy as document paths, without those that lie below another. */
export function packageRoots(policy: PolicySet): DocPath[] {
  return outermost(
    [...policy.modules.values()].flatMap((rego) => {
      const path = regoPackage(rego);
      return path === undefined ? [] : [path];
    }),
  );
}

/**
 * The roots of an OPA bundle with this policy: its packages, and the places of documents that the bundle before had and
 * that are still wanted, each without what lies below another. OPA refuses a bundle whose roots overlap.
 */
export function bundleRoots(policy: PolicySet, held: readonly DocPath[]): DocPath[] {
  return outermost([...packageRoots(policy), ...held]);
}
