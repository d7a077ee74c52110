import { bundleArchive } from '../../src/client/engine/modules/bundle-archive.js';
import { packageRoots } from '../../src/client/engine/modules/bundle-roots.js';

/** An OPA bundle of these modules, which owns their packages. */
export async function bareBundle(files: Readonly<Record<string, string>>): Promise<Buffer> {
  const policy = { hash: '', modules: new Map(Object.entries(files)) };
  return await bundleArchive({ policy, roots: packageRoots(policy), regions: [], v0: new Set<string>() }, 'bare');
}
