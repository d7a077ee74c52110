import { SyncError } from '../../lib/errors.js';
import { checkJson } from '../../lib/json/json.js';
import { depthLimit, JsonTooDeep, levelsBelow } from '../../lib/json/json-check.js';
import { jsonKind } from '../../lib/json/json-text.js';
import { PathTree } from '../../lib/json/path-tree.js';
import type { PolicyBundle } from '../../wire/bundle.js';
import type { DocPath } from '../../wire/doc-path.js';
import { bodyOfText } from '../../wire/json-node.js';
import { packageProblem } from '../../wire/rego-package.js';
import { type Layer, STATIC_ERA } from './layers.js';

/**
 * All that a client holds of the policy repository: the sum of one complete bundle and the deltas
 * since.
 */
export interface PolicyContent {
  readonly hash: string;
  /** Rego text by path, in load order. */
  readonly modules: ReadonlyMap<string, string>;
  /**
   * Data files in load order: the folder and the text. Several files of one folder are listed each.
   */
  readonly data: readonly { readonly folder: string; readonly text: string }[];
}

/** The segments of a bundle's data folder; `.` is the root. */
export function folderPath(folder: string): DocPath {
  return folder.split('/').filter((segment) => segment !== '' && segment !== '.');
}

/**
 * The content after a bundle. Returns undefined where a delta is not enough and the complete bundle
 * is needed: another base than the one held, or data folders that lie inside each other or have
 * several files, where the order among files that the delta does not carry decides.
 */
export function mergeBundle(held: PolicyContent | undefined, bundle: PolicyBundle): PolicyContent | undefined {
  const order = new Map(bundle.manifest.map((path, index) => [path, index]));
  const position = (path: string): number => order.get(path) ?? bundle.manifest.length;
  const modules = [...bundle.policy_modules].sort((a, b) => position(a.path) - position(b.path));
  if (bundle.old_hash === null || bundle.old_hash === undefined) {
    return {
      hash: bundle.hash,
      modules: new Map(modules.map((module) => [module.path, module.rego])),
      data: bundle.data_modules.map((module) => ({ folder: module.path, text: module.data })),
    };
  }
  if (held === undefined || held.hash !== bundle.old_hash) return undefined;

  const nextModules = new Map(held.modules);
  for (const path of bundle.deleted_files?.policy_modules ?? []) nextModules.delete(path);
  for (const module of modules) nextModules.set(module.path, module.rego);

  const changed = bundle.data_modules.map((module) => ({ folder: module.path, text: module.data }));
  const touched = new Set([...changed.map((file) => file.folder), ...(bundle.deleted_files?.data_modules ?? [])]);
  const kept = held.data.filter((file) => !touched.has(file.folder));
  const data = [...kept, ...changed];
  if (touched.size > 0 && !orderIsIrrelevant(data, touched)) return undefined;
  return { hash: bundle.hash, modules: nextModules, data };
}

function orderIsIrrelevant(data: PolicyContent['data'], touched: ReadonlySet<string>): boolean {
  const folders = new PathTree<(typeof data)[number]>();
  for (const file of data) folders.add(folderPath(file.folder), file);
  return [...touched].every((folder) => {
    const path = folderPath(folder);
    // Those above it, then those below it.
    const overlapping = new Set(folders.above(path));
    for (const file of folders.below(path)) if (overlapping.add(file).size > 1) break;
    return overlapping.size <= 1;
  });
}

/**
 * Throws `engine_refused` that names a module whose package has too many names. `held`: what was
 * checked before.
 */
export function checkPackages({ hash, modules }: PolicyContent, held: PolicyContent | undefined): void {
  for (const [path, rego] of modules) {
    if (held?.modules.get(path) === rego) continue;
    const problem = packageProblem(rego);
    if (problem !== undefined) throw new SyncError('engine_refused', `${path} in commit ${hash} ${problem}`);
  }
}

/**
 * The static documents as layers, in load order. Throws `engine_refused` that names the folder of a
 * data file that is not JSON or nested too deep, or of a root document that is not an object.
 */
export function staticLayers(content: PolicyContent): Layer[] {
  return content.data.map(({ folder, text }, index) => {
    const path = folderPath(folder);
    try {
      checkJson(text, levelsBelow(path.length));
    } catch (cause) {
      const isDeep = cause instanceof JsonTooDeep;
      const problem = isDeep ? `is nested too deep: ${depthLimit(path.length)}` : 'is not JSON';
      throw new SyncError('engine_refused', `the data file of folder ${folder} in commit ${content.hash} ${problem}`, {
        cause,
      });
    }
    if (path.length === 0 && jsonKind(text.trim()) !== 'object') {
      throw new SyncError(
        'engine_refused',
        `the data file of the root folder in commit ${content.hash} must be an object`,
      );
    }
    return {
      id: `static:${index}`,
      path,
      rank: { era: STATIC_ERA, seq: index, index: 0 },
      content: { kind: 'put', body: bodyOfText(text) },
    };
  });
}

/** The modules and data files that two commits do not have in common, by path. */
export function changedFiles(held: PolicyContent | undefined, next: PolicyContent): string[] {
  const changed = new Set<string>();
  for (const [path, rego] of next.modules) if (held?.modules.get(path) !== rego) changed.add(path);
  for (const path of held?.modules.keys() ?? []) if (!next.modules.has(path)) changed.add(path);
  const [before, after] = [textsOf(held), textsOf(next)];
  for (const folder of new Set([...before.keys(), ...after.keys()])) {
    if (before.get(folder)?.join('\n') !== after.get(folder)?.join('\n'))
      changed.add([...folderPath(folder), 'data.json'].join('/'));
  }
  return [...changed].sort();
}

function textsOf(content: PolicyContent | undefined): Map<string, string[]> {
  const texts = new Map<string, string[]>();
  for (const { folder, text } of content?.data ?? []) texts.set(folder, [...(texts.get(folder) ?? []), text]);
  return texts;
}
