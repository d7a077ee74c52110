import { constants } from 'node:buffer';
import { SyncError } from '../../../lib/errors.js';
import {
  depthLimit,
  JsonCheck,
  JsonLongNumber,
  JsonSyntaxError,
  JsonTooDeep,
  levelsBelow,
  MAX_DIGITS,
} from '../../../lib/json/json-check.js';
import { lineAt, lineNotUtf8 } from '../../../lib/json/text-lines.js';
import type { Logger } from '../../../lib/observe/log.js';
import { packageLine, packageProblem } from '../../../wire/rego-package.js';
import { CommitRefused } from '../source/commit-refused.js';
import { BLOBS_LIMIT_BYTES, type GitObjects } from '../source/git-objects.js';
import type { CommitReview } from '../source/source.js';
import { bundleItem } from './bundle-item.js';
import { comparePaths, directoryOf, isWithin, withAncestors } from './directories.js';
import { planDelta } from './plan.js';
import type { BundleFile, Snapshot, Snapshots } from './snapshot.js';

/** Maximum warnings of one commit. */
const WARNINGS_SHOWN = 20;

export interface ReviewDeps {
  objects: GitObjects;
  snapshots: Snapshots;
  log: Logger;
}

/** What a bundle can have: contents are read together, and it is sent as one text. */
export interface BundleLimits {
  readonly bytes: number;
  readonly chars: number;
}

const LIMITS: BundleLimits = { bytes: BLOBS_LIMIT_BYTES, chars: constants.MAX_STRING_LENGTH };
/** What a bundle has beside the names and contents of its files, and git says beside a content. */
const MARGIN = { bundle: 64 * 1024, file: 200 };

/** What a content takes in a bundle, without its name. */
type Size = BundleLimits;

/**
 * Checks a commit before it is served (promise 3): modules and names are UTF-8, data files are
 * exactly one JSON value (at the root an object, as engines require), and bundles can be built of
 * it, the complete one and that of the changes. Reads only contents that the previous commit did
 * not have. What fails in an unexpected way would fail for every client: it refuses the commit,
 * too.
 */
export function createCommitReview(deps: ReviewDeps, limits: BundleLimits = LIMITS): CommitReview {
  /** Of the files of the last commits that were reviewed. */
  let sizes: ReadonlyMap<string, Size> = new Map();

  async function review(hash: string, previous: string | undefined): ReturnType<CommitReview['review']> {
    const after = await deps.snapshots.get(hash);
    // After a force-push and a rebuild of the mirror, the previous commit may be missing: then
    // everything counts as changed.
    const isHere = async (commit: string): Promise<boolean> =>
      deps.snapshots.isKept(commit) || (await deps.objects.hasCommit(commit));
    const before = previous !== undefined && (await isHere(previous)) ? await deps.snapshots.get(previous) : undefined;
    const known = new Set(before?.files.map(keyOf));
    const unseen = after.files.filter((file) => !(known.has(keyOf(file)) && sizes.has(keyOf(file))));
    const contents = await deps.objects.blobs(unseen.map((file) => file.blob));
    if (before !== undefined) deps.objects.recall(contents);
    for (const file of after.files) checkName(hash, file);
    const measured = new Map<string, Size>();
    for (const file of unseen) {
      const key = keyOf(file);
      if (measured.has(key)) continue;
      const bytes = contents.get(file.blob) ?? new Uint8Array();
      checkContent(hash, file, bytes);
      measured.set(key, measure(hash, file, bytes));
    }
    const all = new Map(
      [...(before?.files ?? []), ...after.files].flatMap((file) => {
        const size = measured.get(keyOf(file)) ?? sizes.get(keyOf(file));
        return size === undefined ? [] : [[keyOf(file), size]];
      }),
    );
    checkSize(hash, after, all, limits);
    if (before !== undefined) planDelta(before, after, ['.']);
    sizes = all;
    const warnings = firstOf(after.warnings.map(({ text }) => text));
    for (const warning of warnings) deps.log.warn({ hash }, warning);
    const changed = before === undefined ? after.directories : changedDirectories(before, after);
    return { changedDirectories: [...changed].sort(comparePaths), warnings };
  }

  return {
    review: async (hash, previous) => {
      try {
        return await review(hash, previous);
      } catch (error) {
        if (error instanceof SyncError) throw error;
        throw refused(hash, undefined, { text: NO_BUNDLE, cause: error });
      }
    },
  };
}

const NO_BUNDLE = 'cannot be put into a bundle';

/** Files with the same key are checked alike. */
function keyOf(file: BundleFile): string {
  return file.blob + file.kind + (file.kind === 'data' ? levelsAbove(file) : '');
}

/** Makes of a file what bundles have of it. */
function measure(hash: string, file: BundleFile, bytes: Uint8Array): Size {
  try {
    const { item } = bundleItem(file, bytes);
    return { bytes: bytes.length, chars: JSON.stringify({ ...item, path: '' }).length };
  } catch (cause) {
    throw refused(hash, file.path, { text: NO_BUNDLE, cause });
  }
}

function checkSize(hash: string, { files }: Snapshot, sizes: ReadonlyMap<string, Size>, limits: BundleLimits): void {
  const blobs = new Map(files.map((file) => [file.blob, sizes.get(keyOf(file))?.bytes ?? 0]));
  let bytes = 0;
  for (const size of blobs.values()) bytes += size + MARGIN.file;
  let chars = MARGIN.bundle;
  for (const file of files) chars += (sizes.get(keyOf(file))?.chars ?? 0) + 2 * JSON.stringify(file.path).length + 2;
  const problem =
    bytes > limits.bytes
      ? tooManyBytes(bytes, limits.bytes)
      : `takes ${mebibytes(chars)} as JSON, and a bundle at most ${mebibytes(limits.chars)}`;
  if (bytes <= limits.bytes && chars <= limits.chars) return;
  throw refused(hash, undefined, { text: `${problem}: leave out files with SYNC_BUNDLE_IGNORE` });
}

/** What a commit is that no bundle can have. */
export function tooManyBytes(bytes: number, limit: number): string {
  return `has ${mebibytes(bytes)} of modules and data, and a bundle at most ${mebibytes(limit)}`;
}

function mebibytes(bytes: number): string {
  return `${Math.ceil(bytes / 2 ** 20)} MiB`;
}

/** Limits the warnings: a manifest that loads the root last causes one for each data file. */
function firstOf(warnings: readonly string[]): readonly string[] {
  const more = warnings.length - WARNINGS_SHOWN;
  return more <= 0 ? warnings : [...warnings.slice(0, WARNINGS_SHOWN), `and ${more} more warnings of this kind`];
}

/**
 * Returns the directories in which a bundle file was added, removed or changed between two commits,
 * with all ancestors. A manifest that applies counts for every directory below it that has bundle
 * files, because it can reorder them.
 */
export function changedDirectories(before: Snapshot, after: Snapshot): string[] {
  const changed = new Set<string>();
  for (const path of changedKeys(blobs(before), blobs(after))) changed.add(directoryOf(path));
  for (const manifest of changedKeys(before.manifests, after.manifests)) {
    const folder = directoryOf(manifest);
    changed.add(folder);
    for (const { path } of after.files) if (isWithin(path, folder)) changed.add(directoryOf(path));
  }
  return withAncestors(changed);
}

function blobs(snapshot: Snapshot): Map<string, string> {
  return new Map(snapshot.files.map((file) => [file.path, file.blob]));
}

/** Returns the keys that only one map has or whose values differ. */
function changedKeys(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): string[] {
  return [...new Set([...before.keys(), ...after.keys()])].filter((key) => before.get(key) !== after.get(key));
}

/**
 * The segments of the document that a data file becomes. How deep it may be nested depends on them,
 * and the root takes only objects: content that was checked elsewhere is checked again.
 */
function levelsAbove({ path }: BundleFile): number {
  const folder = directoryOf(path);
  return folder === '.' ? 0 : folder.split('/').length;
}

function checkName(hash: string, file: BundleFile): void {
  const problem = nameProblem(file);
  if (problem !== undefined) throw refused(hash, file.path, { text: problem });
}

function checkContent(hash: string, file: BundleFile, bytes: Uint8Array): void {
  const problem = contentProblem(file, bytes);
  if (problem !== undefined) throw refused(hash, file.path, problem);
}

/** Why a file cannot be served because of its name; undefined if it can. */
export function nameProblem(file: Pick<BundleFile, 'path'>): string | undefined {
  return file.path.includes('\uFFFD') ? 'has a name that is not UTF-8' : undefined;
}

/**
 * Why a file cannot be served because of its content, as the end of a sentence that begins with its
 * name.
 */
export interface ContentProblem {
  readonly kind: 'not_utf8' | 'not_json' | 'too_deep' | 'long_number' | 'long_package' | 'not_object' | 'lfs_pointer';
  readonly text: string;
  /** Undefined: the whole file. */
  readonly line?: number;
  readonly cause?: Error;
}

/** Returns what is wrong with the content of a file; undefined if it can be served. */
export function contentProblem(file: BundleFile, bytes: Uint8Array): ContentProblem | undefined {
  const broken = lineNotUtf8(bytes);
  if (broken !== undefined) return { kind: 'not_utf8', text: 'is not UTF-8', line: broken };
  if (isLfsPointer(bytes)) return { kind: 'lfs_pointer', text: LFS_TEXT };
  if (file.kind !== 'data') {
    const rego = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString();
    const text = packageProblem(rego);
    return text === undefined ? undefined : { kind: 'long_package', text, line: packageLine(rego) };
  }
  const above = levelsAbove(file);
  const check = new JsonCheck({ maxDepth: levelsBelow(above), maxDigits: MAX_DIGITS });
  let kind: string;
  try {
    check.push(bytes);
    kind = check.end().kind;
  } catch (cause) {
    if (!(cause instanceof Error)) throw cause;
    const line = cause instanceof JsonSyntaxError ? { line: lineAt(bytes, cause.offset) } : {};
    if (cause instanceof JsonTooDeep)
      return { kind: 'too_deep', text: `is nested too deep (${depthLimit(above)})`, ...line, cause };
    if (cause instanceof JsonLongNumber) return { kind: 'long_number', text: 'keeps engines busy', ...line, cause };
    return { kind: 'not_json', text: 'is not valid JSON', ...line, cause };
  }
  if (above > 0 || kind === 'object') return undefined;
  return { kind: 'not_object', text: 'must be a JSON object at the root' };
}

/** How a pointer of Git LFS begins (its specification). */
const LFS_START = Buffer.from('version https://git-lfs.github.com/spec/v1\n');
const LFS_TEXT =
  'is a pointer of Git LFS, and its content is not in the repository: take the file out of LFS (`git lfs untrack`, then `git add --renormalize` and commit)';

function isLfsPointer(bytes: Uint8Array): boolean {
  return LFS_START.equals(bytes.subarray(0, LFS_START.length));
}

interface Refusal {
  readonly text: string;
  readonly line?: number;
  readonly cause?: unknown;
}

/** `file`: undefined for the whole commit. */
function refused(hash: string, file: string | undefined, { text, line, cause }: Refusal): CommitRefused {
  const place = file === undefined ? undefined : { file, ...(line !== undefined && { line }) };
  return new CommitRefused(hash, place, cause instanceof Error ? `${text}: ${cause.message}` : text, cause);
}
