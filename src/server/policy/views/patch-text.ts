import type { FileDiff } from '../../../wire/fleet-views.js';

/** The hunks of one file, as far as the patch has them. */
export interface FilePatch {
  readonly hunks: FileDiff['hunks'];
  /** There is more than this. */
  readonly truncated: boolean;
}

export interface PatchLimits {
  /** Lines of one file. */
  readonly fileLines: number;
  /** Lines of all files. */
  readonly lines: number;
  /** Characters of a line. */
  readonly lineChars: number;
}

type Hunk = FileDiff['hunks'][number];

const SECTION = 'diff --git ';
/** `@@ -<start>,<count> +<start>,<count> @@ <place>`; without a count it is 1. */
const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;

/**
 * Reads a patch of git, in the order of its sections: one for each file, none for those that it
 * does not reach any more. Counts the lines of each hunk, so that no content is taken for a header.
 * `isCut`: the end of the text is missing. Names are not read: git lists the files apart.
 */
export function readPatch(text: string, isCut: boolean, limits: PatchLimits): FilePatch[] {
  const lines = text.split('\n');
  if (isCut) lines.pop(); // maybe half a line
  const files: FilePatch[] = [];
  let total = 0;
  let at = 0;
  while (at < lines.length) {
    if (!lines[at]?.startsWith(SECTION)) {
      at++;
      continue;
    }
    at++;
    const hunks: Hunk[] = [];
    let shown = 0;
    let truncated = false;
    while (at < lines.length && !lines[at]?.startsWith(SECTION)) {
      const header = lines[at] ?? '';
      const found = HUNK.exec(header);
      at++;
      if (found === null) continue;
      const hunk: Hunk = { header: cut(header, limits.lineChars), lines: [] };
      let [old = 0, oldLeft = 1, fresh = 0, freshLeft = 1] = found.slice(1).map((count) => Number(count ?? 1));
      while ((oldLeft > 0 || freshLeft > 0) && at < lines.length) {
        const line = lines[at++] ?? '';
        const sign = line.charAt(0);
        if (sign === '\\') continue; // no newline at the end of the file
        const kind = sign === '+' ? 'added' : sign === '-' ? 'removed' : 'same';
        const isShown = shown < limits.fileLines && total < limits.lines;
        if (isShown) {
          const content = line.slice(1);
          const numbers = { old: kind === 'added' ? null : old, new: kind === 'removed' ? null : fresh };
          hunk.lines.push({ kind, ...numbers, text: cut(content, limits.lineChars) });
          shown++;
          total++;
          truncated ||= content.length > limits.lineChars;
        } else truncated = true;
        if (kind !== 'added') [old, oldLeft] = [old + 1, oldLeft - 1];
        if (kind !== 'removed') [fresh, freshLeft] = [fresh + 1, freshLeft - 1];
      }
      if (hunk.lines.length > 0) hunks.push(hunk);
    }
    files.push({ hunks, truncated: truncated || (isCut && at >= lines.length) });
  }
  return files;
}

function cut(text: string, limit: number): string {
  return text.length <= limit ? text : `${text.slice(0, limit)}…`;
}
