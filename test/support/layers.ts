import type { Layer, LayerContent } from '../../src/client/desired/layers.js';
import { staticLayers } from '../../src/client/desired/policy-content.js';
import type { PolicySet } from '../../src/client/engine/engine.js';
import { parseDocPath } from '../../src/wire/doc-path.js';
import { bodyOfText } from '../../src/wire/json-node.js';
import { parsePatch } from '../../src/wire/json-patch.js';

/** A dynamic layer: `seq` is its place, content is a document's text, `delete`, or a patch. */
export function layer(
  path: string,
  seq: number,
  content: string | { patch: unknown[] } | 'delete',
  id = `${path}@${seq}`,
): Layer {
  return { id, path: parseDocPath(path), rank: { era: 1, seq, index: 0 }, content: contentOf(content) };
}

function contentOf(content: string | { patch: unknown[] } | 'delete'): LayerContent {
  if (content === 'delete') return { kind: 'delete' };
  if (typeof content === 'string') return { kind: 'put', body: bodyOfText(content) };
  return { kind: 'patch', ops: parsePatch(JSON.stringify(content.patch)) };
}

/** A policy with its static documents, from module texts by path and data texts by folder. */
export function policy(
  hash: string,
  modules: Record<string, string>,
  data: Record<string, string> = {},
): { set: PolicySet; statics: Layer[] } {
  const content = {
    hash,
    modules: new Map(Object.entries(modules)),
    data: Object.entries(data).map(([folder, text]) => ({ folder, text })),
  };
  return { set: { hash, modules: content.modules }, statics: staticLayers(content) };
}
