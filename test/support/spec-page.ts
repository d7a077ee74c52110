import { referencesOf, type TestReference } from './test-references.js';

/** One row of docs/internals/specification.md. */
export interface SpecRow {
  readonly section: string;
  readonly id: string;
  /** Cells by the title of their column, in lower case. */
  readonly cells: ReadonlyMap<string, string>;
  readonly references: readonly TestReference[];
  /** What of the last cell is no reference; empty in a good row. */
  readonly rest: string;
}

/** The rows of all tables of the page, in order. */
export function specRows(page: string): SpecRow[] {
  const rows: SpecRow[] = [];
  let section = '';
  let titles: string[] = [];
  for (const line of page.split('\n')) {
    const heading = /^#{2,3} (.+)$/.exec(line);
    if (heading !== null) [section, titles] = [heading[1] ?? '', []];
    if (!line.startsWith('|') || line.startsWith('|---')) continue;
    const cells = cellsOf(line);
    if (titles.length === 0) {
      titles = cells.map((cell) => cell.toLowerCase());
      continue;
    }
    const last = cells.at(-1) ?? '';
    rows.push({
      section,
      id: (cells[0] ?? '').replaceAll('`', ''),
      cells: new Map(titles.map((title, index) => [title, cells[index] ?? ''])),
      ...referencesOf(last),
    });
  }
  return rows;
}

/** The cells of a table row; `\|` stands for a bar in a cell. */
export function cellsOf(line: string): string[] {
  return line
    .replace(/^\||\|\s*$/g, '')
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll('\\|', '|'));
}
