import { elements, JsonText } from '../../lib/json-text.js';
import { type DocPath, docPathPointer } from '../../wire/doc-path.js';
import { leafOf, type Node, nodeAt, nodeText, withValue } from '../../wire/json-node.js';
import { applyPatch, type PatchOp, PatchRefused, parsePatch } from '../../wire/json-patch.js';

/** How patches stack and fold (design D16): pure rules. */

/** One operation, and its text as published. */
export interface PatchPart {
  readonly op: PatchOp;
  readonly text: string;
}

/** The operations of a PATCH; undefined where they are not known here (its content comes from a URL) or cannot be read. */
export function patchParts(data: JsonText | null | undefined): readonly PatchPart[] | undefined {
  if (data === null || data === undefined) return undefined;
  try {
    const texts = elements(data.text);
    return parsePatch(data.text).map((op, index) => ({ op, text: texts[index] ?? '' }));
  } catch (error) {
    if (error instanceof PatchRefused) return undefined;
    throw error;
  }
}

/**
 * True where each operation sets or removes one member whatever is there, so that repeating it changes nothing and a later
 * one at the same place makes it needless. Not: what reads the document, and what shifts the elements of a list.
 */
export function isPlain(parts: readonly PatchPart[] | undefined): boolean {
  if (parts === undefined) return false;
  return parts.every(({ op }) => {
    if (op.op === 'replace') return true;
    if (op.op !== 'add' && op.op !== 'remove') return false;
    return !/^(-|0|[1-9]\d*)$/.test(op.path.at(-1) ?? '');
  });
}

/**
 * The operations that a later plain patch of the same document leaves needed. One that sets a member makes the parents
 * that are missing, and they stay when it is removed: so a removal makes only other removals needless.
 */
export function partsLeft(parts: readonly PatchPart[], later: readonly PatchPart[]): readonly PatchPart[] {
  /** What is set, or removed, by path. */
  const set = new Set<string>();
  const removed = new Set<string>();
  for (const { op } of later) (op.op === 'remove' ? removed : set).add(docPathPointer(op.path));
  const hides = (op: PatchOp, path: DocPath): boolean => {
    const pointer = docPathPointer(path);
    return set.has(pointer) || (op.op === 'remove' && removed.has(pointer));
  };
  return parts.filter(({ op }) => {
    for (let length = op.path.length; length >= 0; length--) if (hides(op, op.path.slice(0, length))) return false;
    return true;
  });
}

/** The patch of some operations, as published. */
export function partsText(parts: readonly PatchPart[]): JsonText {
  return JsonText.trusted(`[${parts.map(({ text }) => text).join(',')}]`);
}

/** A patch that is waiting to be worked into a document. */
export interface WaitingPatch {
  /** From the document to where the patch applies. */
  readonly below: DocPath;
  readonly parts: readonly PatchPart[];
}

/**
 * The document with the patches worked in, in order; undefined: nothing is left of it. One that does not apply is left
 * out, as every client leaves it out.
 */
export function patched(document: JsonText, patches: readonly WaitingPatch[]): JsonText | undefined {
  if (patches.length === 0) return document;
  let at: Node | undefined = leafOf(document.text);
  for (const { below, parts } of patches) {
    try {
      at = withValue(
        at,
        below,
        applyPatch(
          nodeAt(at, below),
          parts.map(({ op }) => op),
        ),
      );
    } catch (error) {
      if (!(error instanceof PatchRefused)) throw error;
      // Left out, see above.
    }
  }
  return at === undefined ? undefined : JsonText.trusted(nodeText(at));
}
