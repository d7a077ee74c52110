import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { pack } from 'tar-stream';
import { objectText } from '../../lib/json-text.js';
import { outermost } from '../../lib/path-tree.js';
import type { DocPath } from '../../wire/doc-path.js';
import { packageLine, regoPackage } from '../../wire/rego-package.js';
import type { PolicySet, Region } from './engine.js';
import { manifestVersions, type V0Modules } from './rego-versions.js';

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

/** Content of one OPA bundle. */
export interface BundleContent {
  readonly policy: PolicySet;
  readonly roots: readonly DocPath[];
  readonly regions: readonly Region[];
  /** The modules that are read as Rego v0. */
  readonly v0: V0Modules;
}

const compress = promisify(gzip);

/** OPA wants at least one root, or the bundle owns everything: an unused path stands for none. */
const NO_ROOT = 'system/policysync/none';

/** The bytes of an OPA bundle: modules, the documents of its regions, and a manifest with its roots (OPA bundle format). */
export async function bundleArchive(content: BundleContent, revision: string): Promise<Buffer> {
  const archive = pack();
  const parts: Buffer[] = [];
  const whole = new Promise<Buffer>((resolve, reject) => {
    archive.on('data', (part) => parts.push(part as Buffer)); // it gives nothing else
    archive.on('end', () => resolve(Buffer.concat(parts)));
    archive.on('error', reject);
  });
  const roots = content.roots.map((root) => root.join('/'));
  archive.entry(
    { name: '.manifest' },
    JSON.stringify({
      revision,
      roots: roots.length === 0 ? [NO_ROOT] : roots,
      ...manifestVersions(content.policy.modules, content.v0),
    }),
  );
  for (const [path, rego] of content.policy.modules) archive.entry({ name: archiveName(path) }, rego);
  archive.entry({ name: 'data.json' }, regionsText(content.regions));
  archive.finalize();
  // In one piece: compressing entry by entry takes several times as long.
  return await compress(await whole, { level: 1 });
}

/** The name of a module in a bundle: OPA decodes the percent-escapes of names when it replaces a bundle. */
function archiveName(path: string): string {
  return path.replaceAll('%', '%25');
}

/** The module that has a name in a bundle. */
export function moduleAt(archived: string): string {
  return archived.replaceAll('%25', '%');
}

/** The one document that has all regions, texts as written. */
export function regionsText(regions: readonly Region[]): string {
  const group = (items: readonly { path: DocPath; text: string }[], depth: number): string => {
    const whole = items.find((item) => item.path.length === depth);
    if (whole !== undefined) return whole.text;
    const byKey = new Map<string, { path: DocPath; text: string }[]>();
    for (const item of items) {
      const key = item.path[depth] ?? '';
      const group = byKey.get(key);
      if (group === undefined) byKey.set(key, [item]);
      else group.push(item);
    }
    return objectText([...byKey].map(([key, members]) => [key, group(members, depth + 1)] as const));
  };
  return regions.length === 0 ? '{}' : group(regions, 0);
}
