import type { GitCommand } from './git-command.js';

/** Longest time of one import; a quarter of a gigabyte takes seconds. */
const IMPORT_TIMEOUT_MS = 300_000;
/** Author and time of every commit are the same, so that the commit depends on nothing but its files. */
const COMMITTER = 'PolicySync <policysync@localhost> 0 +0000';
const MESSAGE = 'policy bundle\n';

/** One file on its way into a commit. */
export interface ImportFile {
  /** Normal form, no control characters. */
  path: string;
  sizeBytes: number;
  /** Exactly `sizeBytes` bytes. Read once, before the next file is asked for. */
  content: AsyncIterable<Uint8Array>;
}

/**
 * Makes a commit of exactly these files (of several with one path the last) and points `ref` at it. The commit has no
 * parent and a fixed author and time: the same files give the same hash, in every repository. Nothing changes when
 * `files` throws; what it threw is thrown on. Throws `git_failed`, `git_timeout`.
 */
export async function importCommit(
  git: GitCommand,
  ref: string,
  files: AsyncIterable<ImportFile>,
  signal: AbortSignal,
): Promise<void> {
  // --done: a stream that ends early is no commit. --force: the commit does not descend from what the ref has. --depth=0:
  // looking for similar files doubles the time of an import, and saves a few bytes.
  const args = ['fast-import', '--quiet', '--done', '--force', '--date-format=raw', '--depth=0'];
  await git.run(args, { timeoutMs: IMPORT_TIMEOUT_MS, signal, input: importStream(ref, files) });
}

async function* importStream(ref: string, files: AsyncIterable<ImportFile>): AsyncGenerator<string | Uint8Array> {
  const marks = new Map<string, number>();
  let mark = 0;
  for await (const file of files) {
    mark++;
    yield `blob\nmark :${mark}\ndata ${file.sizeBytes}\n`;
    yield* file.content;
    yield '\n';
    marks.set(file.path, mark);
  }
  yield `commit ${ref}\ncommitter ${COMMITTER}\ndata ${Buffer.byteLength(MESSAGE)}\n${MESSAGE}`;
  for (const [path, blob] of marks) yield `M 100644 :${blob} ${quoted(path)}\n`;
  yield 'done\n';
}

/** A path as fast-import reads it back. */
function quoted(path: string): string {
  return `"${path.replace(/["\\]/g, '\\$&')}"`;
}
