import { type DocPath, isAtOrBelow } from '../../wire/doc-path.js';
import { type Body, isObject, membersOf, type Node, nodeText, sameNode } from '../../wire/json-node.js';

/** One change of the document tree. Paths of one list never overlap. `body` is there where the text is a whole body. */
export type DataOp =
  | { readonly op: 'put'; readonly path: DocPath; readonly text: () => string; readonly body?: Body }
  | { readonly op: 'remove'; readonly path: DocPath };

/**
 * The operations that lead from one composed subtree to another. An operation never covers a subtree that stays as it is
 * where documents overlap (design D7), nor one of the `closed` paths, which are written by other means; the root is
 * never replaced as a whole.
 */
export function diffNodes(
  before: Node | undefined,
  after: Node | undefined,
  path: DocPath,
  closed: readonly DocPath[],
): DataOp[] {
  const ops: DataOp[] = [];
  walk(before, after, path, closed, ops);
  return ops;
}

function walk(
  before: Node | undefined,
  after: Node | undefined,
  path: DocPath,
  closed: readonly DocPath[],
  ops: DataOp[],
): void {
  if (closed.some((other) => isAtOrBelow(path, other))) return;
  const inside = closed.filter((other) => isAtOrBelow(other, path));
  const split = path.length === 0 || inside.length > 0;
  if (!split) {
    if (sameNode(before, after)) return;
    if (after === undefined) {
      ops.push({ op: 'remove', path });
      return;
    }
    if (after.kind === 'leaf' || !isObject(before)) {
      ops.push(putOp(path, after));
      return;
    }
  }
  // A value that has no members makes room for what lies below it; nothing closed can be there.
  if (path.length > 0 && before !== undefined && !isObject(before)) ops.push({ op: 'remove', path });
  const old = membersOf(before);
  const next = membersOf(after);
  for (const key of new Set([...old.keys(), ...next.keys()])) {
    walk(old.get(key), next.get(key), [...path, key], inside, ops);
  }
}

/** The put operation that writes a node at a path. */
export function putOp(path: DocPath, node: Node): DataOp {
  return node.kind === 'leaf' && node.body !== undefined
    ? { op: 'put', path, text: node.text, body: node.body }
    : { op: 'put', path, text: () => nodeText(node) };
}
