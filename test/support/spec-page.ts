/** A test that a row of docs/internals/specification.md refers to. */
export interface SpecReference {
  readonly file: string;
  readonly name: string;
}

/** One row of docs/internals/specification.md. */
export interface SpecRow {
  readonly section: string;
  readonly id: string;
  /** Cells by the title of their column, in lower case. */
  readonly cells: ReadonlyMap<string, string>;
  readonly references: readonly SpecReference[];
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

/** References are `` `file` "name", "name" ``, with `<br>` between files. */
function referencesOf(cell: string): Pick<SpecRow, 'references' | 'rest'> {
  const group = /`([^`]+)`((?:,? "(?:[^"\\]|\\.)*")+)/g;
  const references = [...cell.matchAll(group)].flatMap(([, file = '', names = '']) =>
    [...names.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, name = '']) => ({ file, name: name.replace(/\\(.)/g, '$1') })),
  );
  return { references, rest: cell.replace(group, '').replaceAll('<br>', '').trim() };
}
