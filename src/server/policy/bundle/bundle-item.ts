import type { PolicyBundle } from '../../../wire/bundle.js';
import { packageName } from '../../../wire/rego-package.js';
import { directoryOf } from './directories.js';
import type { BundleFile } from './snapshot.js';

/** A file as a bundle has it. */
export type BundleItem =
  | { readonly kind: 'data'; readonly item: PolicyBundle['data_modules'][number] }
  | { readonly kind: 'policy'; readonly item: PolicyBundle['policy_modules'][number] };

/**
 * Makes the item of a file: bytes kept unchanged, including a byte order mark. Throws for bytes
 * that are not UTF-8.
 */
export function bundleItem(
  { path, kind }: Pick<BundleFile, 'path' | 'kind'>,
  bytes: Uint8Array | undefined,
): BundleItem {
  const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  return kind === 'data'
    ? { kind, item: { path: directoryOf(path), data: text } }
    : { kind, item: { path, package_name: packageName(text), rego: text } };
}
