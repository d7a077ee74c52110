import { elements, JsonText } from '../../lib/json/json-text.js';
import { type DocPath, docPathPointer, isPointer, parsePointer } from '../../wire/doc-path.js';
import { impliedIn, leafOf, type Node, nodeText, withImplied } from '../../wire/json-node.js';
import { type PatchOp, PatchRefused, parsePatch, patchedAt } from '../../wire/json-patch.js';

/** How patches stack and fold (design D16): pure rules. */

/** One operation, and its text as published. */
export interface PatchPart {
  readonly op: PatchOp;
  readonly text: string;
}

/**
 * The operations of a PATCH; undefined if they are unknown (its content comes from a URL) or
 * invalid.
 */
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
 * True if each operation sets or removes one member unconditionally: it is idempotent, and a later
 * one at the same path supersedes it. False for operations that depend on the document, or that
 * shift the elements of a list.
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
 * The operations that a later plain patch of the same document does not supersede. An operation
 * that sets a member creates missing parents, which stay when the member is removed: so a removal
 * supersedes only other removals.
 */
export function partsLeft(parts: readonly PatchPart[], later: readonly PatchPart[]): readonly PatchPart[] {
  /** Pointers that `later` sets, and those that it removes. */
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

/** The text of a patch with these operations, as published. */
export function partsText(parts: readonly PatchPart[]): JsonText {
  return JsonText.trusted(`[${parts.map(({ text }) => text).join(',')}]`);
}

/** A patch that is linked to a document. */
export interface WaitingPatch {
  /** Path of the patch, relative to the document. */
  readonly below: DocPath;
  readonly parts: readonly PatchPart[];
}

/** A document, and the objects in it that are there only because of what is in them. */
export interface WorkedDocument {
  readonly data: JsonText;
  readonly implied?: string[] | undefined;
}

/**
 * The document after the patches, in order; undefined if they removed all of it. A patch that does
 * not apply is skipped, as by every client. `above`: segments of the path of the document.
 */
export function patched(
  document: WorkedDocument,
  patches: readonly WaitingPatch[],
  above: number,
): WorkedDocument | undefined {
  if (patches.length === 0) return document;
  let at: Node | undefined = withImplied(leafOf(document.data.text), (document.implied ?? []).map(parsePointer));
  for (const { below, parts } of patches) {
    try {
      at = patchedAt(
        at,
        below,
        parts.map(({ op }) => op),
        above,
      );
    } catch (error) {
      if (!(error instanceof PatchRefused)) throw error;
    }
  }
  if (at === undefined) return undefined;
  const implied = impliedIn(at).filter(isPointer);
  return { data: JsonText.trusted(nodeText(at)), ...(implied.length === 0 ? {} : { implied }) };
}
