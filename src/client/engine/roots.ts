import type { DocPath } from '../../wire/doc-path.js';
import { regoPackage } from '../../wire/rego-package.js';
import { outermost } from '../desired/outermost.js';
import type { PolicySet } from './engine.js';

/**
 * The roots of an OPA bundle with this policy: its packages, and the places of documents that the bundle before had and
 * that are still wanted, each without what lies below another. OPA refuses a bundle whose roots overlap.
 */
export function bundleRoots(policy: PolicySet, held: readonly DocPath[]): DocPath[] {
  const packages = [...policy.modules.values()].flatMap((rego) => {
    const path = regoPackage(rego);
    return path === undefined ? [] : [path];
  });
  return outermost([...packages, ...held]);
}
