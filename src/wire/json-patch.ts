import * as z from 'zod';
import { errorText } from '../lib/errors.js';
import { parseJson } from '../lib/json/json.js';
import { depthProblem } from '../lib/json/json-check.js';
import { elements, JsonText, jsonKind, members } from '../lib/json/json-text.js';
import { type DocPath, parsePointer } from './doc-path.js';
import {
  asOwn,
  branchOf,
  isImplied,
  isObject,
  leafOf,
  membersOf,
  type Node,
  nodeAt,
  nodeText,
  withValue,
} from './json-node.js';
import { ListItems } from './list-items.js';
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

/**
 * The operations in the text of a patch as values, without those that they write, which may be most
 * of many megabytes: for each of those, an empty object. What is no list of objects shows as what
 * it is.
 */
export function patchShape(text: string): unknown {
  return jsonKind(text) === 'array' ? elements(text).map(opShape) : shape(text);
}

function opShape(text: string): unknown {
  if (jsonKind(text) !== 'object') return shape(text);
  return Object.fromEntries([...members(text)].map(([name, value]) => [name, shape(value)]));
}

/** A value that is neither list nor object, or an empty one of these. */
function shape(text: string): unknown {
  const kind = jsonKind(text);
  return kind === 'scalar' ? parseJson(text) : kind === 'array' ? [] : {};
}

/** Reads a JSON patch. Throws {@link PatchRefused} that names the operation at fault. */
export function parsePatch(text: string): PatchOp[] {
  if (jsonKind(text) !== 'array') throw new PatchRefused('a PATCH needs a list of JSON patch operations');
  return elements(text).map((item, index) => {
    const parsed = rawOp.safeParse(opShape(item));
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
 * Applies a patch to a node, all or nothing. Missing parents are created, and removing a missing
 * value succeeds (design D16); elements of lists follow RFC 6902. Refuses a patch that would cost
 * more than {@link MOST_CUT}, and one after which all documents as one would be nested deeper than
 * OPA reads. `above`: segments of the path of the node.
 */
export function applyPatch(node: Node | undefined, ops: readonly PatchOp[], above = 0): Node | undefined {
  const draft = new Draft(node, above);
  let at = node;
  for (const op of ops) at = applyOp(at, op, draft);
  return at;
}

/**
 * The node, which is below `above` segments, with a patch applied to what is at `path` in it; see
 * {@link applyPatch}.
 */
export function patchedAt(
  node: Node | undefined,
  path: DocPath,
  ops: readonly PatchOp[],
  above: number,
): Node | undefined {
  return withValue(node, path, applyPatch(nodeAt(node, path), ops, above + path.length));
}

/**
 * Which operations of a patch write something that is nested too deep, and why. `above`: segments
 * of the path of the patch.
 */
export function depthProblems(
  ops: readonly PatchOp[],
  above: number,
): { readonly index: number; readonly problem: string }[] {
  return ops.flatMap((op, index) => {
    const problem = 'value' in op && op.op !== 'test' ? depthProblem(op.value.text, above + op.path.length) : undefined;
    return problem === undefined ? [] : [{ index, problem }];
  });
}

/**
 * Characters that one patch may parse, a second of work, beside a few passes over the whole
 * document. What an operation has parsed is cached for the next one: more is needed only if long
 * values are read again and again.
 */
const MOST_CUT = 128 * 1024 * 1024;
const LOOKS = 32;
/** What the copy of a member costs, in characters. */
const MEMBER_COST = 8;

/**
 * Characters that the copies of one patch may have: a copy of what was copied doubles a document,
 * and a few hundred bytes would fill the memory of every client.
 */
const MOST_COPIED = 16 * 1024 * 1024;
/**
 * Characters that a document may have with what is copied into it: several patches are no way
 * around.
 */
const MOST_WITH_COPIES = 64 * 1024 * 1024;

/** The result of a patch so far. It has no other owner, so it is changed in place. */
class Draft {
  readonly #members = new WeakSet<ReadonlyMap<string, Node>>();
  readonly #items = new WeakMap<Node, ListItems>();
  /** Parsed objects; their members must not change. */
  readonly #opened = new WeakMap<Node, ReadonlyMap<string, Node>>();
  #cut = 0;
  #copied = 0;
  /** Of the document before the patch; measured once something is copied. */
  #documentSize: number | undefined;
  #mostCut = MOST_CUT;
  readonly #document: Node | undefined;

  readonly #above: number;

  constructor(document: Node | undefined, above: number) {
    this.#document = document;
    this.#above = above;
  }

  /** Throws where a text would be nested too deep at a path. */
  assertDepth(text: string, path: DocPath): void {
    const problem = depthProblem(text, this.#above + path.length);
    if (problem !== undefined) throw new PatchRefused(`${JSON.stringify(path.join('/'))}: ${problem}`);
  }

  /** Members of an object that may be changed; empty for other values. */
  membersOf(node: Node | undefined): Map<string, Node> {
    if (node?.kind === 'branch' && this.#members.has(node.members)) return node.members as Map<string, Node>;
    const own = new Map(this.isList(node) ? [] : this.#open(node));
    this.#spend(own.size * MEMBER_COST);
    this.#members.add(own);
    return own;
  }

  /** Members of an object as they are; each is parsed once. */
  #open(node: Node | undefined): ReadonlyMap<string, Node> {
    if (node?.kind !== 'leaf') return membersOf(node);
    let found = this.#opened.get(node);
    if (found === undefined) {
      found = membersOf(node);
      if (found.size > 0) this.#spend(node.text().length);
      this.#opened.set(node, found);
    }
    return found;
  }

  isList(node: Node | undefined): boolean {
    return node?.kind === 'leaf' && (this.#items.has(node) || jsonKind(node.text()) === 'array');
  }

  /** Elements of a list that may be changed. */
  itemsOf(node: Node): ListItems {
    const known = this.#items.get(node);
    if (known !== undefined) return known;
    const text = nodeText(node);
    this.#spend(text.length);
    return new ListItems(elements(text));
  }

  /** The list of these elements. */
  listOf(items: ListItems): Node {
    let held: ListItems | undefined = items;
    let text = '';
    const print = (): string => {
      if (held !== undefined) text = held.text();
      held = undefined;
      return text;
    };
    const list: Node = { kind: 'leaf', text: print };
    this.#items.set(list, items);
    return list;
  }

  /** The node at a path; array indexes count as segments. */
  at(node: Node | undefined, path: DocPath): Node | undefined {
    let at = node;
    for (const segment of path) {
      if (at === undefined) return undefined;
      if (this.isList(at)) {
        const item = /^(0|[1-9]\d*)$/.test(segment) ? this.itemsOf(at).at(Number(segment)) : undefined;
        at = item === undefined ? undefined : leafOf(item);
      } else at = this.#open(at).get(segment);
    }
    return at;
  }

  textOf(node: Node): string {
    const text = nodeText(node);
    this.#spend(text.length);
    return text;
  }

  /**
   * A value that will be in two places: printed, since a value that may change must be in one
   * alone.
   */
  copyOf(node: Node): Node {
    this.#documentSize ??= sizeOf(this.#document);
    this.#copied += sizeOf(node);
    if (this.#copied > MOST_COPIED || this.#documentSize + this.#copied > MOST_WITH_COPIES)
      throw new PatchRefused('the patch copies too much: publish the document with what it should have');
    if (node.kind === 'branch' || node.body === undefined) return leafOf(this.textOf(node));
    this.#spend(node.body.sizeBytes);
    return node;
  }

  #spend(characters: number): void {
    this.#cut += characters;
    if (this.#cut <= this.#mostCut) return;
    if (this.#mostCut === MOST_CUT) this.#mostCut += LOOKS * sizeOf(this.#document);
    if (this.#cut > this.#mostCut)
      throw new PatchRefused(
        'the patch reads long values too often: publish the document, or name members instead of indexes',
      );
  }
}

function sizeOf(node: Node | undefined): number {
  if (node === undefined) return 0;
  if (node.kind === 'leaf') return node.body?.sizeBytes ?? node.text().length;
  return [...node.members.values()].reduce((sum, member) => sum + sizeOf(member), 0);
}

function applyOp(node: Node | undefined, op: PatchOp, draft: Draft): Node | undefined {
  switch (op.op) {
    case 'add':
    case 'replace':
      draft.assertDepth(op.value.text, op.path);
      return edit(node, op.path, leafOf(op.value.text), op.op, draft);
    case 'remove':
      return edit(node, op.path, undefined, 'replace', draft);
    case 'test': {
      const found = draft.at(node, op.path);
      if (found === undefined || !sameJson(draft.textOf(found), op.value.text)) {
        throw new PatchRefused(`test of ${JSON.stringify(op.path.join('/'))} does not hold`);
      }
      return node;
    }
    case 'copy':
    case 'move': {
      const found = draft.at(node, op.from);
      if (found === undefined)
        throw new PatchRefused(`${op.op} from ${JSON.stringify(op.from.join('/'))}: nothing is there`);
      if (op.op === 'move' && op.path.length > op.from.length && op.from.every((part, at) => op.path[at] === part)) {
        throw new PatchRefused(`move from ${JSON.stringify(op.from.join('/'))} into itself`);
      }
      let value = op.op === 'copy' ? draft.copyOf(found) : asOwn(found);
      // Where the path is not longer, it is nested no deeper than it was.
      if (op.path.length > op.from.length) {
        const text = draft.textOf(value);
        draft.assertDepth(text, op.path);
        // So no branch lies deeper than a pointer leads: they are walked by recursion.
        if (value.kind === 'branch') value = leafOf(text);
      }
      if (op.op === 'copy') return edit(node, op.path, value, 'add', draft);
      return edit(edit(node, op.from, undefined, 'replace', draft), op.path, value, 'add', draft);
    }
  }
}

/**
 * Sets or removes the value at a path; where the way leads through a list, the list is edited by
 * index.
 */
function edit(
  node: Node | undefined,
  path: DocPath,
  value: Node | undefined,
  how: 'add' | 'replace',
  draft: Draft,
): Node | undefined {
  if (path.at(-1) === '-' && how === 'add' && value !== undefined) {
    const target = draft.at(node, path.slice(0, -1));
    // Of an object `-` is a member; anything else would become an object with that member, which
    // nobody means.
    const takes = draft.isList(target) || isObject(target);
    if (!takes) throw new PatchRefused(`${JSON.stringify(path.join('/'))}: there is no list to append to`);
  }
  let list = node;
  for (let depth = 0; depth < path.length; depth++) {
    if (list === undefined) break;
    if (!draft.isList(list)) {
      if (!isObject(list)) break;
      if (depth + 1 < path.length) list = draft.at(list, path.slice(depth, depth + 1));
      continue;
    }
    const items = draft.itemsOf(list);
    const segment = path[depth] ?? '';
    const rest = path.slice(depth + 1);
    const index = segment === '-' ? items.length : /^(0|[1-9]\d*)$/.test(segment) ? Number(segment) : Number.NaN;
    const inserting = rest.length === 0 && how === 'add' && value !== undefined;
    if (!(index >= 0 && index < items.length + (inserting ? 1 : 0))) {
      if (value === undefined) return node;
      throw new PatchRefused(`${JSON.stringify(path.join('/'))} is outside the list`);
    }
    if (rest.length > 0) {
      const inner = edit(leafOf(items.at(index) ?? 'null'), rest, value, how, draft);
      items.set(index, inner === undefined ? 'null' : draft.textOf(inner));
    } else if (value === undefined) items.remove(index);
    else if (inserting) items.insert(index, draft.textOf(value));
    else items.set(index, draft.textOf(value));
    return placed(node, path.slice(0, depth), draft.listOf(items), draft);
  }
  return placed(node, path, value, draft);
}

/**
 * Sets or removes the value at a path of objects, in place where the draft has made what is
 * changed.
 */
function placed(node: Node | undefined, path: DocPath, value: Node | undefined, draft: Draft): Node | undefined {
  const [segment, ...rest] = path;
  if (segment === undefined) return value;
  if (value === undefined && (draft.isList(node) || !isObject(node))) return node;
  const members = draft.membersOf(node);
  if (value === undefined && !members.has(segment)) return node;
  const child = placed(members.get(segment), rest, value, draft);
  if (child === undefined) members.delete(segment);
  else members.set(segment, child);
  // What a patch sets a member of is an object of its own from then on.
  return branchOf(members, value === undefined && node !== undefined && isImplied(node));
}
