import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Fatal } from './run.mjs';

const KINDS = ['Added', 'Changed', 'Deprecated', 'Removed', 'Fixed', 'Security'];
/** As wide as the pages are. */
const WIDTH = 138;

/** The changes since the last release: `{ path, kind, text }`. Throws for a malformed one. */
export function readChanges(root) {
  const folder = join(root, 'changes');
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder).filter((name) => name.endsWith('.md') && name !== 'README.md');
  return names.sort().map((name) => {
    const [kind, empty, ...rest] = readFileSync(join(folder, name), 'utf8').trim().split('\n');
    const text = rest.join(' ').replaceAll(/\s+/g, ' ').trim();
    if (KINDS.includes(kind) && empty === '' && text !== '') return { path: `changes/${name}`, kind, text };
    throw new Fatal(
      `changes/${name}: the first line is one of ${KINDS.join(', ')}; the text follows after an empty line.`,
    );
  });
}

/** The part of a version: the lines between its heading and the next; undefined without a heading. */
export function partOf(changelog, isHeading) {
  const lines = changelog.split('\n');
  const start = lines.findIndex((line) => line.startsWith('## ') && isHeading(line.slice(3)));
  if (start < 0) return undefined;
  const next = lines.findIndex((line, at) => at > start && line.startsWith('## '));
  return { start, end: next < 0 ? lines.length : next, lines: lines.slice(start + 1, next < 0 ? undefined : next) };
}

/** The lines of a part with the changes in it: one list for each kind. */
export function joinedPart(part, changes) {
  const lines = [...part];
  while (lines.length > 0 && lines.at(-1).trim() === '') lines.pop();
  for (const kind of KINDS) {
    const items = changes.filter((change) => change.kind === kind).flatMap(({ text }) => item(text));
    if (items.length === 0) continue;
    const heading = lines.indexOf(`### ${kind}`);
    if (heading < 0) {
      lines.push('', `### ${kind}`, '', ...items);
      continue;
    }
    let end = lines.findIndex((line, at) => at > heading && line.startsWith('#'));
    if (end < 0) end = lines.length;
    while (lines[end - 1].trim() === '') end--;
    lines.splice(end, 0, ...items);
  }
  return lines;
}

/**
 * The changelog with the changes in the part of the version, which gets its date: the part that
 * waits for it (`## <version> - unreleased`), or a new one above all others.
 */
export function joinedChangelog(changelog, changes, version, date) {
  const heading = `## ${version} - ${date}`;
  const waiting = partOf(changelog, (text) => text === `${version} - unreleased`);
  const lines = changelog.split('\n');
  if (waiting !== undefined) {
    const part = joinedPart(waiting.lines, changes);
    lines.splice(waiting.start, waiting.end - waiting.start, heading, ...part, '');
  } else {
    if (changes.length === 0) throw new Fatal('There is no change in changes/: there is nothing to release.');
    if (partOf(changelog, (text) => text.startsWith(`${version} - `)) !== undefined) {
      throw new Fatal(`CHANGELOG.md has ${version} already: raise the version with "npm version" first.`);
    }
    const first = lines.findIndex((line) => line.startsWith('## '));
    lines.splice(first < 0 ? lines.length : first, 0, heading, ...joinedPart([], changes), '');
  }
  return `${lines.join('\n').trimEnd()}\n`;
}

/** An item of a list, wrapped; code and the text of a link are kept together. */
function item(text) {
  const lines = [];
  let line = '-';
  for (const word of text.match(/(?:`[^`]*`|[^\s`]|`)+/g)) {
    if (line.length + 1 + word.length > WIDTH && line.trim() !== '-') {
      lines.push(line);
      line = ' ';
    }
    line += ` ${word}`;
  }
  return [...lines, line];
}
