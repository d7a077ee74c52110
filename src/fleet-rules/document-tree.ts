import type { DataDocument } from '../wire/fleet-views.js';

/** The documents of a fleet as a tree of their paths. */

export interface TreeNode {
  /** The whole path: what names the node. */
  readonly path: string;
  /** What the tree shows: the last segment, or several where nothing branches off between them. */
  readonly name: string;
  readonly document: DataDocument | null;
  readonly children: readonly TreeNode[];
  /** Documents at the node and below it. */
  readonly documents: number;
  /** Of all of them, where every size is known. */
  readonly bytes: number | null;
  /** The newest seq of them. */
  readonly seq: number;
  readonly changedAt: number | null;
  readonly refusedBy: number;
  /** The one source that all of them have; null: several. */
  readonly source: string | null;
}

/** A node that is shown, with what a tree says to assistive technology. */
export interface TreeRow {
  readonly node: TreeNode;
  /** From 1. */
  readonly level: number;
  readonly position: number;
  readonly siblings: number;
  /** null: it has nothing below it. */
  readonly open: boolean | null;
  readonly parent: string | null;
}

interface Branch {
  document: DataDocument | null;
  readonly children: Map<string, Branch>;
}

/**
 * Builds the tree; nodes are in the order of their names. The root document, where there is one, is
 * a node of its own.
 */
export function documentTree(documents: readonly DataDocument[]): TreeNode[] {
  const root: Branch = { document: null, children: new Map() };
  for (const document of documents) {
    let at = root;
    for (const segment of segmentsOf(document.path)) {
      const next = at.children.get(segment) ?? { document: null, children: new Map<string, Branch>() };
      at.children.set(segment, next);
      at = next;
    }
    at.document = document;
  }
  const nodes = nodesOf(root, '');
  return root.document === null ? nodes : [nodeOf('/', '/', root.document, []), ...nodes];
}

function segmentsOf(path: string): string[] {
  return path.split('/').filter((segment) => segment !== '');
}

function nodesOf({ children }: Branch, above: string): TreeNode[] {
  return [...children]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([segment, branch]) => {
      let name = segment;
      let end = branch;
      for (;;) {
        const [only] = end.children;
        if (end.document !== null || end.children.size !== 1 || only === undefined) break;
        name += `/${only[0]}`;
        end = only[1];
      }
      const path = `${above}/${name}`;
      return nodeOf(path, above === '' ? path : name, end.document, nodesOf(end, path));
    });
}

function nodeOf(path: string, name: string, document: DataDocument | null, children: readonly TreeNode[]): TreeNode {
  const parts = [
    ...(document === null
      ? []
      : [
          {
            documents: 1,
            bytes: document.bytes,
            seq: document.seq,
            changedAt: document.changed_at,
            refusedBy: document.refused_by,
            source: document.source,
          },
        ]),
    ...children,
  ];
  const times = parts.flatMap(({ changedAt }) => changedAt ?? []);
  const [first] = parts;
  return {
    path,
    name,
    document,
    children,
    documents: parts.reduce((sum, part) => sum + part.documents, 0),
    bytes: parts.reduce<number | null>((sum, { bytes }) => (sum === null || bytes === null ? null : sum + bytes), 0),
    seq: parts.reduce((most, { seq }) => Math.max(most, seq), 0),
    changedAt: times.length === 0 ? null : times.reduce((most, at) => Math.max(most, at)),
    refusedBy: parts.reduce((sum, { refusedBy }) => sum + refusedBy, 0),
    source: parts.every(({ source }) => source === first?.source) ? (first?.source ?? null) : null,
  };
}

/** The rows of the nodes whose parents are all open. */
export function treeRows(nodes: readonly TreeNode[], isOpen: (path: string) => boolean): TreeRow[] {
  const rows: TreeRow[] = [];
  const add = (list: readonly TreeNode[], level: number, parent: string | null): void => {
    list.forEach((node, index) => {
      const open = node.children.length === 0 ? null : isOpen(node.path);
      rows.push({ node, level, position: index + 1, siblings: list.length, open, parent });
      if (open === true) add(node.children, level + 1, node.path);
    });
  };
  add(nodes, 1, null);
  return rows;
}

/**
 * Paths of the nodes to open at first: from the top, as long as no more than `most` rows are shown.
 */
export function openAtFirst(nodes: readonly TreeNode[], most: number): Set<string> {
  const open = new Set<string>();
  let rows = nodes.length;
  for (let level = nodes; level.length > 0; ) {
    const below = level.flatMap(({ children }) => children);
    if (below.length === 0 || rows + below.length > most) break;
    for (const { path, children } of level) if (children.length > 0) open.add(path);
    rows += below.length;
    level = below;
  }
  return open;
}

/** Paths above a path: what has to be open so that it is seen. */
export function pathsAbove(nodes: readonly TreeNode[], path: string): string[] {
  const above: string[] = [];
  for (let level = nodes; ; ) {
    const next = level.find((node) => path === node.path || path.startsWith(`${node.path}/`));
    if (next === undefined || next.path === path) return above;
    above.push(next.path);
    level = next.children;
  }
}

/** The node of a path. */
export function treeNodeAt(nodes: readonly TreeNode[], path: string): TreeNode | undefined {
  for (const node of nodes) {
    if (node.path === path) return node;
    const found = path.startsWith(`${node.path}/`) ? treeNodeAt(node.children, path) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Where a key of the tree pattern leads: a row to go to, or a node to open or close. */
export function treeKey(
  key: string,
  rows: readonly TreeRow[],
  at: string,
): { go: string } | { toggle: string } | undefined {
  const index = rows.findIndex(({ node }) => node.path === at);
  const row = rows[index];
  if (row === undefined) return undefined;
  const go = (to: number): { go: string } | undefined => {
    const target = rows[to];
    return target === undefined ? undefined : { go: target.node.path };
  };
  switch (key) {
    case 'ArrowDown':
    case 'j':
      return go(index + 1);
    case 'ArrowUp':
    case 'k':
      return go(index - 1);
    case 'Home':
      return go(0);
    case 'End':
      return go(rows.length - 1);
    case 'ArrowRight':
      return row.open === false ? { toggle: at } : row.open === true ? go(index + 1) : undefined;
    case 'ArrowLeft':
      return row.open === true ? { toggle: at } : row.parent === null ? undefined : { go: row.parent };
    default:
      return undefined;
  }
}

/**
 * Whether a document has all words of a search: in its path, its source, a topic. `source:`,
 * `topic:` and `path:` look at one of them; `-` in front means that it must not.
 */
export function matchesDocument(document: DataDocument, query: string): boolean {
  return query
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '' && word !== '-')
    .every((word) => {
      const isNot = word.startsWith('-');
      const [, field, text = ''] = /^(?:(source|topic|path):)?(.*)$/.exec(isNot ? word.slice(1) : word) ?? [];
      const texts = [
        ...(field === undefined || field === 'path' ? [document.path] : []),
        ...(field === undefined || field === 'source' ? [document.source] : []),
        ...(field === undefined || field === 'topic' ? document.topics : []),
      ];
      return texts.some((one) => one.toLowerCase().includes(text)) !== isNot;
    });
}
