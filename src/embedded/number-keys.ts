import type { DocPath } from '../wire/doc-path.js';
import type { CompiledEntrypoint, CompiledSet, DocumentOp } from './types.js';

/**
 * OPA finds the member "12" of a document by the number 12, a compiled policy does not. The
 * compiler leaves entrypoints to Go where documents have such members; these rules do the same for
 * documents that are written later.
 */

const IS_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
/**
 * A member whose name is a number, or may be one (a character of it is written as an escape),
 * anywhere in a JSON text.
 */
const HAS_NUMBER_NAME = /"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?"\s*:|\\u00(?:3\d|2[bdeBDE]|[46]5)/;

/** Why an entrypoint is no longer compiled. */
const REASON = 'a document that it looks into has got members whose names are numbers';

/**
 * The set without the entrypoints that changes of the documents leave to Go; the same one if there
 * are none.
 */
export function leaveNumberKeys<Set extends CompiledSet>(set: Set, ops: readonly DocumentOp[]): Set {
  const numbered = ops.filter(hasNumberKey);
  if (numbered.length === 0) return set;
  const isLeft = ({ compiled, open = [] }: CompiledEntrypoint): boolean =>
    compiled && open.some((path) => numbered.some((op) => concerns(op, path)));
  if (!set.entrypoints.some(isLeft)) return set;
  const entrypoints = set.entrypoints.map((one) => (isLeft(one) ? { ...one, compiled: false, reason: REASON } : one));
  return { ...set, entrypoints };
}

function hasNumberKey({ path, text }: DocumentOp): boolean {
  return text !== undefined && (path.some((key) => IS_NUMBER.test(key)) || HAS_NUMBER_NAME.test(text));
}

/** Whether a change writes a member that is a number below a path. */
function concerns({ path, text = '' }: DocumentOp, open: DocPath): boolean {
  const shared = Math.min(path.length, open.length);
  for (let depth = 0; depth < shared; depth++) if (path[depth] !== open[depth]) return false;
  return path.slice(open.length).some((key) => IS_NUMBER.test(key)) || HAS_NUMBER_NAME.test(text);
}
