import { type DocPath, docPathText, isAtOrBelow, pathsOverlap } from '../../wire/doc-path.js';
import { membersOf } from '../../wire/json-node.js';
import type { LayerSet } from '../desired/layers.js';
import { outermost } from '../desired/outermost.js';

/**
 * Where documents can be compared: the outermost places of what the client holds. One that has a package, or a document of the
 * client's own, somewhere below it cannot be told from results of rules as a whole; nor can the root, where others may write
 * beside us: there each member is a place of its own. What lies at or below a package is left out.
 */
export class Places {
  /** Members of a place that is looked at part by part, so that a large document is not cut open for each write elsewhere. */
  readonly #parts = new Map<string, readonly DocPath[]>();
  #closed = '';

  /** `written`: where something has changed since the last call. */
  list(
    layers: Pick<LayerSet, 'all' | 'compose'>,
    closed: readonly DocPath[],
    isWritten: (path: DocPath) => boolean,
  ): DocPath[] {
    const key = JSON.stringify(closed);
    if (key !== this.#closed) this.#parts.clear();
    this.#closed = key;
    const tops = outermost([...layers.all()].map(({ path }) => path));
    const found = tops.flatMap((path) => {
      if (closed.some((other) => isAtOrBelow(path, other))) return [];
      if (path.length > 0 && !closed.some((other) => pathsOverlap(other, path))) return [path];
      const name = docPathText(path);
      const known = isWritten(path) ? undefined : this.#parts.get(name);
      const parts = known ?? partsOf(layers, closed, path);
      this.#parts.set(name, parts);
      return parts;
    });
    const names = new Set(tops.map(docPathText));
    for (const name of [...this.#parts.keys()]) if (!names.has(name)) this.#parts.delete(name);
    return found;
  }
}

/** The members of a document, and where something closed lies below one of them the members of that, and so on. */
function partsOf(layers: Pick<LayerSet, 'compose'>, closed: readonly DocPath[], path: DocPath): readonly DocPath[] {
  const open = [{ path, node: layers.compose(path) }];
  const found: DocPath[] = [];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    for (const [name, node] of membersOf(at.node)) {
      const place = [...at.path, name];
      if (closed.some((other) => isAtOrBelow(place, other))) continue;
      if (closed.some((other) => isAtOrBelow(other, place))) open.push({ path: place, node });
      else found.push(place);
    }
  }
  return found;
}
