import type { TextFile } from '../../../checker/messages.js';
import { folderPath } from '../../../client/desired/policy-content.js';
import { jsonKind, members } from '../../../lib/json/json-text.js';
import { directoryOf } from '../../../server/policy/bundle/directories.js';
import { type DocPath, docPathText, isAtOrBelow } from '../../../wire/doc-path.js';
import { regoPackage } from '../../../wire/rego-package.js';
import { type Finding, okFinding, warningFinding } from '../../kit/findings.js';
import { documentPathOf } from './bundle-files.js';

/** Most findings of one kind. */
const SHOWN = 20;
const SHADOWED_REMEDY =
  'Remove the member from the file above, or merge the two files: the file of a folder replaces everything at and below it.';

interface DataFile {
  readonly file: string;
  readonly path: DocPath;
  readonly text: string;
}

/** What the data files do to each other and to the packages. Pure. */
export function dataFindings(data: readonly TextFile[], modules: readonly TextFile[]): Finding[] {
  const files = data.map(({ path, text }) => ({ file: path, path: folderPath(directoryOf(path)), text }));
  return [...shadowed(files), ...belowPackages(files, modules)];
}

/** Parts of a document that the file of a folder below replaces. */
function shadowed(files: readonly DataFile[]): Finding[] {
  const findings = new Map<string, Finding>();
  for (const [index, above] of files.entries()) {
    const below = files.slice(index + 1).filter(({ path }) => isWithin(path, above.path));
    if (below.length === 0) continue;
    for (const { file, path } of below) {
      const place = replacedPlace(above.text.trim(), path, above.path.length);
      if (place === undefined) continue;
      const message = `its value at ${docPathText(place)} is replaced by ${file}`;
      const finding = warningFinding('data_shadowed', 'data', message, SHADOWED_REMEDY, { file: above.file });
      findings.set(JSON.stringify([above.file, place]), finding); // of several files of a folder the last counts
    }
  }
  return [...findings.values()].slice(0, SHOWN);
}

/**
 * Where a document has a value at a path, or one on the way that is no object; undefined if it
 * leaves room.
 */
function replacedPlace(text: string, path: DocPath, from: number): DocPath | undefined {
  let at = text;
  for (const [index, segment] of path.entries()) {
    if (index < from) continue;
    if (jsonKind(at) !== 'object') return path.slice(0, index);
    const next = members(at).get(segment);
    if (next === undefined) return undefined;
    at = next;
  }
  return /^(?:\{\s*\}|\[\s*\])$/.test(at) ? undefined : path;
}

function isWithin(path: DocPath, above: DocPath): boolean {
  return path.length > above.length && isAtOrBelow(path, above);
}

/** Data at or below a package travels inside the bundle of the engine: a change costs a compile. */
function belowPackages(files: readonly DataFile[], modules: readonly TextFile[]): Finding[] {
  const packages = modules.flatMap(({ text }) => {
    const name = regoPackage(text);
    return name === undefined ? [] : [name];
  });
  const inside = files.filter(({ path }) => packages.some((name) => isAtOrBelow(path, name)));
  return inside.slice(0, SHOWN).map(({ file }) => {
    const message = `lies at or below a package: updates at ${documentPathOf(file)} activate the whole policy again`;
    return okFinding('data_below_package', 'data', `${message} (hint: give data that changes a name of its own)`, {
      file,
    });
  });
}
