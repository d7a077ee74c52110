import { type DocPath, isAtOrBelow } from '../../wire/doc-path.js';
import type { Body } from '../../wire/json-node.js';
import { leafOfBody, type Node, nodeAt, withValue } from '../../wire/json-node.js';
import { applyPatch, type PatchOp, PatchRefused } from '../../wire/json-patch.js';
import { PathIndex, type Placed } from './path-index.js';

/**
 * Order of documents: compared part by part, the greater one is applied later and wins (design D6). Static data of the
 * bundle has the era {@link STATIC_ERA}; dynamic entries have the era of their log, their seq and their place in it.
 */
export interface Rank {
  readonly era: number;
  readonly seq: number;
  readonly index: number;
}

/** The era of static data: below every dynamic entry. */
export const STATIC_ERA = 0;

/** Negative when `a` is applied before `b`. */
export function compareRank(a: Rank, b: Rank): number {
  return a.era - b.era || a.seq - b.seq || a.index - b.index;
}

/** What a layer does at its path. */
export type LayerContent =
  | { readonly kind: 'put'; readonly body: Body }
  | { readonly kind: 'delete' }
  | { readonly kind: 'patch'; readonly ops: readonly PatchOp[] };

/** One document, deletion or patch that takes part in the desired state. */
export interface Layer extends Placed {
  readonly rank: Rank;
  readonly content: LayerContent;
}

/** True for a layer that replaces everything at and below its path. */
export function replaces(layer: Layer): boolean {
  return layer.content.kind !== 'patch';
}

/** A set of layers, composed at any path: the state of one engine's documents. */
export class LayerSet extends PathIndex<Layer> {
  /**
   * The composed value of all layers at `path`. A patch that cannot be applied is left out and named in `refused`, if given.
   */
  compose(path: DocPath, refused?: Map<string, string>): Node | undefined {
    const layers = this.overlapping(path).sort((a, b) => compareRank(a.rank, b.rank));
    // A patch reads what is outside `path` too (test, move, copy): compose from where the patch starts.
    const top = layers.reduce<DocPath>(
      (shortest, layer) =>
        layer.content.kind === 'patch' && layer.path.length < shortest.length ? layer.path : shortest,
      path,
    );
    if (top.length < path.length) return nodeAt(this.compose(top, refused), path.slice(top.length));
    let from = 0;
    for (const [index, layer] of layers.entries()) {
      if (replaces(layer) && isAtOrBelow(path, layer.path)) from = index;
    }
    let node: Node | undefined;
    for (const layer of layers.slice(from)) node = applyLayer(node, path, layer, refused);
    return node;
  }
}

function applyLayer(
  node: Node | undefined,
  path: DocPath,
  layer: Layer,
  refused?: Map<string, string>,
): Node | undefined {
  const { content } = layer;
  if (layer.path.length < path.length) {
    return content.kind === 'put' ? nodeAt(leafOfBody(content.body), path.slice(layer.path.length)) : undefined;
  }
  const below = layer.path.slice(path.length);
  switch (content.kind) {
    case 'put':
      return withValue(node, below, leafOfBody(content.body));
    case 'delete':
      return withValue(node, below, undefined);
    case 'patch':
      try {
        return withValue(node, below, applyPatch(nodeAt(node, below), content.ops));
      } catch (error) {
        if (!(error instanceof PatchRefused)) throw error;
        refused?.set(layer.id, error.message);
        return node;
      }
  }
}
