import type { Module, TextFile } from '../../../checker/messages.js';
import { directoryOf, requestedDirectories } from '../../../server/policy/bundle/directories.js';
import { compileIgnoredBy } from '../../../server/policy/bundle/ignore.js';
import { planComplete } from '../../../server/policy/bundle/plan.js';
import { type ContentProblem, contentProblem, nameProblem } from '../../../server/policy/bundle/review.js';
import {
  type BundleFile,
  createSnapshots,
  fileKind,
  type Snapshot,
  type SnapshotOptions,
} from '../../../server/policy/bundle/snapshot.js';
import type { CheckedContent } from './open-content.js';

/** A file that the server rejects, and with it the whole commit. */
export interface RejectedFile {
  readonly path: string;
  readonly problem: Omit<ContentProblem, 'kind'> & { readonly kind: ContentProblem['kind'] | 'name' };
}

/** The bundle of a commit as the server builds it, and what it leaves out. */
export interface BundleFiles {
  readonly snapshot: Snapshot;
  /** The directories that count: `.` for the whole repository. */
  readonly directories: readonly string[];
  /** In load order, without those that are rejected. */
  readonly modules: readonly Module[];
  readonly data: readonly TextFile[];
  readonly rejected: readonly RejectedFile[];
  /** Modules and data files that an ignore pattern leaves out. */
  readonly ignored: readonly { readonly path: string; readonly pattern: string }[];
  /** Ignored modules that are tests. */
  readonly ignoredTests: readonly TextFile[];
  /** All other files. */
  readonly others: readonly string[];
}

/** Ending of a module with tests, without its extension. */
const TEST_FILE = /_test\.[^./]+$/;

/**
 * Builds the bundle of some directories (none: the whole repository). Rejects with
 * `policy_commit_refused` if a manifest is not UTF-8, and with `git_failed`.
 */
export async function readBundle(
  content: Pick<CheckedContent, 'hash' | 'objects'>,
  options: SnapshotOptions & { readonly directories: readonly string[] },
): Promise<BundleFiles> {
  const snapshot = await createSnapshots(options, content).get(content.hash);
  const directories = requestedDirectories(options.directories);
  const { files } = planComplete(snapshot, directories);
  const ignoredBy = compileIgnoredBy(options.ignore);
  const tree = await content.objects.files(content.hash);
  const known = new Set([...snapshot.files.map(({ path }) => path), ...snapshot.manifests.keys()]);
  const left = tree.filter(({ path }) => !known.has(path));
  const ignored: { path: string; pattern: string; blob: string }[] = [];
  const others: string[] = [];
  for (const { path, blob } of left) {
    const pattern = ignoredBy(path);
    if (pattern === undefined) others.push(path);
    else if (fileKind(path, options.policyExtensions) !== undefined) ignored.push({ path, pattern, blob });
  }
  const tests = ignored.filter(
    ({ path }) => TEST_FILE.test(path) && fileKind(path, options.policyExtensions) === 'policy',
  );
  const contents = await content.objects.blobs([...files, ...tests].map(({ blob }) => blob));
  const bytesOf = (blob: string): Uint8Array => contents.get(blob) ?? new Uint8Array();
  const judged = files.map((file) => ({ file, problem: problemOf(file, bytesOf(file.blob)) }));
  const texts = (kind: BundleFile['kind']): Module[] =>
    judged
      .filter(({ file, problem }) => file.kind === kind && problem === undefined)
      .map(({ file: { path, blob, declared } }) => ({
        path,
        text: decoded(bytesOf(blob)),
        ...(declared !== undefined && { declared }),
      }));
  return {
    ...{ snapshot, directories, others },
    modules: texts('policy'),
    data: texts('data'),
    rejected: judged.flatMap(({ file: { path }, problem }) => (problem === undefined ? [] : [{ path, problem }])),
    ignored: ignored.map(({ path, pattern }) => ({ path, pattern })),
    ignoredTests: tests.map(({ path, blob }) => ({ path, text: decoded(bytesOf(blob)) })),
  };
}

function problemOf(file: BundleFile, bytes: Uint8Array): RejectedFile['problem'] | undefined {
  const text = nameProblem(file);
  return text === undefined ? contentProblem(file, bytes) : { kind: 'name', text };
}

/** As buildBundle does: a byte order mark stays. */
function decoded(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
}

/** The document that a data file becomes: `/users` for `users/data.json`. */
export function documentPathOf(path: string): string {
  const folder = directoryOf(path);
  return folder === '.' ? '/' : `/${folder}`;
}
