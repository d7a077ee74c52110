import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { pack } from 'tar-stream';
import type { EngineProblem, Region } from '../../../embedded/vocabulary.js';
import { objectText } from '../../../lib/json/json-text.js';
import type { DocPath } from '../../../wire/doc-path.js';
import { isObject, leafOf, membersOf, type Node, nodeText } from '../../../wire/json-node.js';
import type { PolicySet } from '../engine.js';
import { packageRoots } from './bundle-roots.js';
import { manifestVersions, type V0Modules } from './rego-versions.js';

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

/** Roots as a manifest has them. */
export function manifestRoots(roots: readonly DocPath[]): string[] {
  return roots.length === 0 ? [NO_ROOT] : roots.map((root) => root.join('/'));
}

/**
 * The bytes of an OPA bundle: modules, the documents of its regions, and a manifest with its roots
 * (OPA bundle format).
 */
export async function bundleArchive(content: BundleContent, revision: string): Promise<Buffer> {
  const archive = pack();
  const parts: Buffer[] = [];
  const whole = new Promise<Buffer>((resolve, reject) => {
    archive.on('data', (part) => parts.push(part as Buffer)); // it gives nothing else
    archive.on('end', () => resolve(Buffer.concat(parts)));
    archive.on('error', reject);
  });
  archive.entry(
    { name: '.manifest' },
    JSON.stringify({
      revision,
      roots: manifestRoots(content.roots),
      ...manifestVersions(content.policy.modules, content.v0),
    }),
  );
  for (const [path, rego] of content.policy.modules) archive.entry({ name: archiveName(path) }, rego);
  archive.entry({ name: 'data.json' }, regionsText(content.regions, packageRoots(content.policy)));
  archive.finalize();
  // In one piece: compressing entry by entry takes several times as long.
  return await compress(await whole, { level: 1 });
}

/**
 * The name of a module in a bundle: OPA decodes the percent-escapes of names when it replaces a
 * bundle.
 */
function archiveName(path: string): string {
  return path.replaceAll('%', '%25');
}

/** Problems that OPA finds in a bundle, with the modules that have these names there. */
export function withModuleNames(problems: readonly EngineProblem[]): EngineProblem[] {
  return problems.map((problem) =>
    problem.file === undefined ? problem : { ...problem, file: problem.file.replaceAll('%25', '%') },
  );
}

/** Places of a tree: some have a text, and all are there. */
interface Place {
  text: string | undefined;
  readonly below: Map<string, Place>;
}

/**
 * The one document that has all regions, texts as written. Each of the `packages` is an object
 * there, also where it has no document: OPA looks for a document in the place of each rule, and
 * where it finds none in its package, it copies what lies above at each write.
 */
export function regionsText(regions: readonly Region[], packages: readonly DocPath[] = []): string {
  const top: Place = { text: undefined, below: new Map() };
  const placeAt = (path: DocPath): Place =>
    path.reduce((at, segment) => {
      const next = at.below.get(segment) ?? { text: undefined, below: new Map() };
      at.below.set(segment, next);
      return next;
    }, top);
  for (const path of packages) placeAt(path);
  for (const { path, text } of regions) placeAt(path).text = text;
  return placeText(top, undefined);
}

/** `held`: what is there by a text above. */
function placeText({ text, below }: Place, held: Node | undefined): string {
  const node = text === undefined ? held : leafOf(text);
  if (node !== undefined && (below.size === 0 || !isObject(node))) return nodeText(node);
  const members = membersOf(node);
  return objectText([
    ...[...members].filter(([key]) => !below.has(key)).map(([key, member]) => [key, nodeText(member)] as const),
    ...[...below].map(([key, place]) => [key, placeText(place, members.get(key))] as const),
  ]);
}
