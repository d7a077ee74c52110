import * as z from 'zod';
import { errorText } from '../lib/errors.js';
import { elements, JsonText, jsonKind, members } from '../lib/json-text.js';
import { type DocPath, parsePointer } from './doc-path.js';
import { isObject, leafOf, type Node, nodeAt, nodeText, withValue } from './json-node.js';
import { sameJson } from './same-json.js';

/** One operation of a JSON patch (RFC 6902), its value as written. */
export type PatchOp =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: DocPath; readonly value: JsonText }
  | { readonly op: 'remove'; readonly path: DocPath }
  | { readonly op: 'move' | 'copy'; readonly from: DocPath; readonly path: DocPath };

/** A patch that cannot be applied to the document as it is: the whole patch is withheld. */
export class PatchRefused extends Error {
  override readonly name = 'PatchRefused';
}

const rawOp = z.object({ op: z.string(), path: z.string(), from: z.string().nullish() });

/** Reads a JSON patch. Throws {@link PatchRefused} that names the operation at fault. */
export function parsePatch(text: string): PatchOp[] {
  if (jsonKind(text) !== 'array') throw new PatchRefused('a PATCH needs a list of JSON patch operations');
  return elements(text).map((item, index) => {
    const parsed = rawOp.safeParse(JSON.parse(item));
    if (!parsed.success) throw new PatchRefused(`operation ${index} of the patch needs "op" and "path"`);
    const { op, path, from } = parsed.data;
    const at = pointer(path, index);
    switch (op) {
      case 'add':
      case 'replace':
      case 'test': {
        const value = members(item).get('value');
        if (value === undefined) throw new PatchRefused(`operation ${index} (${op}) of the patch has no value`);
        return { op, path: at, value: JsonText.trusted(value) };
      }
      case 'remove':
        return { op, path: at };
      case 'move':
      case 'copy':
        if (typeof from !== 'string') throw new PatchRefused(`operation ${index} (${op}) of the patch has no "from"`);
        return { op, from: pointer(from, index), path: at };
      default:
        throw new PatchRefused(
          `operation ${index} of the patch is ${JSON.stringify(op)}, which JSON patch does not have`,
        );
    }
  });
}

function pointer(text: string, index: number): DocPath {
  try {
    return parsePointer(text);
  } catch (cause) {
    throw new PatchRefused(`operation ${index} of the patch has a path that is no JSON pointer: ${errorText(cause)}`, {
      cause,
    });
  }
}

/**
 * Applies a patch to a node, all or nothing. Missing parents are made and removing what is not there succeeds (design
 * 9.5); elements of lists follow RFC 6902.
 */
export function applyPatch(node: Node | undefined, ops: readonly PatchOp[]): Node | undefined {
  let at = node;
  for (const op of ops) at = applyOp(at, op);
  return at;
}

function applyOp(node: Node | undefined, op: PatchOp): Node | undefined {
  switch (op.op) {
    case 'add':
    case 'replace':
      return edit(node, op.path, leafOf(op.value.text), op.op);
    case 'remove':
      return edit(node, op.path, undefined, 'replace');
    case 'test': {
      const found = nodeAt(node, op.path);
      if (found === undefined || !sameJson(nodeText(found), op.value.text)) {
        throw new PatchRefused(`test of ${JSON.stringify(op.path.join('/'))} does not hold`);
      }
      return node;
    }
    case 'copy':
    case 'move': {
      const found = nodeAt(node, op.from);
      if (found === undefined)
        throw new PatchRefused(`${op.op} from ${JSON.stringify(op.from.join('/'))}: nothing is there`);
      if (op.op === 'move' && op.path.length > op.from.length && op.from.every((part, at) => op.path[at] === part)) {
        throw new PatchRefused(`move from ${JSON.stringify(op.from.join('/'))} into itself`);
      }
      const base = op.op === 'move' ? edit(node, op.from, undefined, 'replace') : node;
      return edit(base, op.path, found, 'add');
    }
  }
}

/** Sets or removes the value at a path; where the way leads through a list, the list is edited by index. */
function edit(
  node: Node | undefined,
  path: DocPath,
  value: Node | undefined,
  how: 'add' | 'replace',
): Node | undefined {
  if (path.at(-1) === '-' && how === 'add' && value !== undefined) {
    const target = nodeAt(node, path.slice(0, -1));
    // Of an object `-` is a member; anything else would become an object with that member, which nobody means.
    const takes = target !== undefined && (isObject(target) || jsonKind(nodeText(target)) === 'array');
    if (!takes) throw new PatchRefused(`${JSON.stringify(path.join('/'))}: there is no list to append to`);
  }
  for (let depth = 0; depth < path.length; depth++) {
    const list = nodeAt(node, path.slice(0, depth));
    if (list === undefined) break;
    if (list.kind !== 'leaf' || jsonKind(list.text()) !== 'array') {
      if (!isObject(list)) break;
      continue;
    }
    const items = elements(list.text());
    const segment = path[depth] ?? '';
    const rest = path.slice(depth + 1);
    const index = segment === '-' ? items.length : /^(0|[1-9]\d*)$/.test(segment) ? Number(segment) : Number.NaN;
    const inserting = rest.length === 0 && how === 'add' && value !== undefined;
    if (!(index >= 0 && index < items.length + (inserting ? 1 : 0))) {
      if (value === undefined) return node;
      throw new PatchRefused(`${JSON.stringify(path.join('/'))} is outside the list`);
    }
    if (rest.length > 0) {
      const inner = edit(leafOf(items[index] ?? 'null'), rest, value, how);
      items[index] = inner === undefined ? 'null' : nodeText(inner);
    } else if (value === undefined) {
      items.splice(index, 1);
    } else {
      items.splice(index, inserting ? 0 : 1, nodeText(value));
    }
    return withValue(node, path.slice(0, depth), leafOf(`[${items.join(',')}]`));
  }
  return withValue(node, path, value);
}
