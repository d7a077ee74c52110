import { type EngineProblem, EngineRefusal, engineProblemText } from '../../embedded/vocabulary.js';
import { type DocPath, docPathText, isAtOrBelow, pathsOverlap } from '../../wire/doc-path.js';
import { isObject, leafOfBody, nodeAt } from '../../wire/json-node.js';
import { compareRank, type Layer, type LayerSet, STATIC_ERA } from '../desired/layers.js';
import type { PolicySet } from '../engine/engine.js';
import { type PackagePlace, packagePlaces } from '../engine/modules/bundle-roots.js';
import { AUTHZ_PATH, AUTHZ_REASON } from '../engine/opa/opa-authz.js';

/**
 * A layer that the engine refuses as long as policy and the documents around it stay as they are
 * (design D10).
 */
export interface BlockedLayer {
  readonly layer: Layer;
  readonly reason: string;
}

/**
 * Throws a refusal when a value that is no object lies at or above a root, the place of `what`: the
 * engine cannot hold both. `policy`: whose packages the roots are, so that the refusal names one.
 */
export function assertRoomFor(
  layers: LayerSet,
  roots: Iterable<DocPath>,
  { what = 'a policy package', policy }: { readonly what?: string; readonly policy?: PolicySet } = {},
): void {
  const places = outermostFirst([...roots].flatMap((root) => root.map((_, index) => root.slice(0, index + 1))));
  for (const path of places) {
    if (!layers.isValueAt(path)) continue;
    const message = `the document at ${docPathText(path)} is no object, but it is the place of ${what}`;
    const declared = policy && packagePlaces(policy).find((place) => isAtOrBelow(place.path, path));
    throw new EngineRefusal(message, [{ message, conflictPath: path, ...placeOf(declared) }]);
  }
}

function placeOf(declared: PackagePlace | undefined): { file?: string; row?: number } {
  return declared === undefined ? {} : { file: declared.file, row: declared.row };
}

/** What is kept for the client itself, in messages. */
export const OWN_DOCUMENTS = "the client's own documents";

/** True for a layer that lies where the client has a document of its own. */
export function isReserved({ path }: Pick<Layer, 'path'>, reserved: readonly DocPath[]): boolean {
  return reserved.some((own) => isAtOrBelow(path, own));
}

/** Throws a refusal for a layer that lies where the client has a document of its own. */
export function assertNotReserved(layers: readonly Layer[], reserved: readonly DocPath[]): void {
  for (const layer of layers) {
    if (!isReserved(layer, reserved)) continue;
    const { path } = layer;
    const message = `${docPathText(path)} is kept for ${OWN_DOCUMENTS}`;
    throw new EngineRefusal(message, [{ message, conflictPath: path }]);
  }
}

/**
 * Throws a refusal for a policy that would take over a document of the client's own. `above`: a
 * package above one takes it over, too (a bundle owns everything below its packages).
 */
export function assertPackagesNotReserved(policy: PolicySet, reserved: readonly DocPath[], above: boolean): void {
  const problems = packagePlaces(policy).flatMap((place): EngineProblem[] => {
    const { path } = place;
    const own = reserved.find((each) => isAtOrBelow(path, each) || (above && isAtOrBelow(each, path)));
    if (own === undefined) return [];
    const reason = own === AUTHZ_PATH ? AUTHZ_REASON : `${docPathText(own)} is kept for ${OWN_DOCUMENTS}`;
    return [{ message: `package ${path.join('.')} cannot be used: ${reason}`, ...placeOf(place) }];
  });
  const [first] = problems;
  if (first !== undefined) throw new EngineRefusal(first.message, problems);
}

/** The dynamic layers whose documents stand where the refusal says that a rule is. */
export function colliding(
  layers: LayerSet,
  refusal: EngineRefusal,
  known: ReadonlyMap<string, BlockedLayer>,
): BlockedLayer[] {
  const found = new Map<string, BlockedLayer>();
  for (const problem of refusal.problems) {
    const at = problem.conflictPath;
    if (at === undefined) continue;
    // Only the one that wins there: what lies below it may be allowed to stay once it is gone.
    const [layer] = layers
      .overlapping(at)
      .filter((other) => other.rank.era !== STATIC_ERA && !known.has(other.id) && providesValueAt(other, at))
      .sort((a, b) => compareRank(b.rank, a.rank));
    if (layer !== undefined) found.set(layer.id, { layer, reason: problemReason(problem) });
  }
  return [...found.values()];
}

/** Why a document is refused, in the same words whichever came first, it or what keeps it out. */
export function refusalReason({ problems, message }: EngineRefusal): string {
  return problems.map(problemReason).join('; ') || message;
}

function problemReason(problem: EngineProblem): string {
  const { conflictPath: at, file, row } = problem;
  if (at === undefined || file === undefined) return engineProblemText(problem);
  return `${docPathText(at)} is defined by a rule (${file}${row === undefined ? '' : `:${row}`})`;
}

/** Each path once, shorter ones first. */
function outermostFirst(paths: readonly DocPath[]): DocPath[] {
  const each = new Map(paths.map((path) => [JSON.stringify(path), path]));
  return [...each.values()].sort((a, b) => a.length - b.length);
}

function providesValueAt(layer: Layer, path: DocPath): boolean {
  const isInside = isAtOrBelow(layer.path, path);
  const below = path.slice(layer.path.length);
  switch (layer.content.kind) {
    case 'put': {
      if (isInside) return true;
      // A value without members on the way is in the way of the rule, too.
      const top = leafOfBody(layer.content.body);
      return (
        below.some((_, index) => {
          const value = nodeAt(top, below.slice(0, index));
          return value !== undefined && !isObject(value);
        }) || nodeAt(top, below) !== undefined
      );
    }
    case 'delete':
      return false;
    case 'patch':
      return layer.content.ops.some((op) => op.op !== 'remove' && op.op !== 'test' && pathsOverlap(op.path, below));
  }
}
