import { SyncError } from '../../lib/errors.js';
import type { PolicyBundle } from '../../wire/bundle.js';
import { packageName } from '../../wire/rego-package.js';
import { directoryOf } from './directories.js';
import type { BundlePlan } from './plan.js';

/**
 * The bundle of a plan (spec PolicyBundle), members in the order of protocol-facts 2.2; both module lists are in load order.
 * `contents` has the bytes by object id, kept as they are (a byte order mark too). Throws `policy_commit_refused` for bytes
 * that are not UTF-8: those of a served commit are, it was checked before.
 */
export function buildBundle(plan: BundlePlan, contents: ReadonlyMap<string, Uint8Array>): PolicyBundle {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const bundle: PolicyBundle = {
    manifest: plan.files.map((file) => file.path),
    hash: plan.hash,
    old_hash: plan.oldHash,
    data_modules: [],
    policy_modules: [],
    deleted_files:
      plan.deleted === null
        ? null
        : { data_modules: [...plan.deleted.data], policy_modules: [...plan.deleted.policies] },
  };
  for (const { path, kind, blob } of plan.files) {
    let text: string;
    try {
      text = decoder.decode(contents.get(blob));
    } catch (cause) {
      throw new SyncError('policy_commit_refused', `commit ${plan.hash}: ${path} is not UTF-8`, { cause });
    }
    if (kind === 'data') bundle.data_modules.push({ path: directoryOf(path), data: text });
    else bundle.policy_modules.push({ path, package_name: packageName(text), rego: text });
  }
  return bundle;
}
