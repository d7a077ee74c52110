import { depthProblem } from '../lib/json/json-check.js';
import { jsonKind, members, objectText } from '../lib/json/json-text.js';
import { outermost } from '../lib/json/path-tree.js';
import { type DocPath, docPathText } from '../wire/doc-path.js';
import type { DocumentOp } from './types.js';
import { EngineRefusal } from './vocabulary.js';

/** A subtree: a JSON text as written, or the members of an object that a change has led through. */
type Doc = string | Map<string, Doc>;

/** A change that was made. */
export interface AppliedChange {
  /**
   * What has to be done elsewhere for the same effect: never at the root, nothing that changes
   * nothing.
   */
  readonly ops: readonly DocumentOp[];
  /** Takes the change back; must be called before the next change, or not at all. */
  undo(): void;
}

/**
 * The documents of an engine, with values as written. Texts are cut only where a change leads
 * through them, and changed in place: one change of an object with many members costs no copy of
 * it.
 */
export class Documents {
  #root = new Map<string, Doc>();

  /**
   * Makes changes in order, all or none. A put creates missing parents, and the root takes an
   * object only; removing what is not there changes nothing. Throws {@link EngineRefusal} for a put
   * through a scalar or an array, and where all documents as one would be nested deeper than OPA
   * reads: whoever holds a part of them is filled with the whole.
   */
  apply(changes: readonly DocumentOp[]): AppliedChange {
    const undone: (() => void)[] = [];
    const done: DocumentOp[] = [];
    const undo = (): void => {
      for (const step of undone.splice(0).reverse()) step();
    };
    try {
      for (const change of changes) {
        assertDepth(change);
        for (const op of change.path.length === 0 ? this.#atRoot(change) : [change]) {
          if (this.#applyOne(op, undone)) done.push(op);
        }
      }
    } catch (error) {
      undo();
      throw error;
    }
    return { ops: done, undo };
  }

  /** Replaces everything at and below `roots` by what `regions` have there; see {@link apply}. */
  replace(
    roots: readonly DocPath[],
    regions: readonly { readonly path: DocPath; readonly text: string }[],
  ): AppliedChange {
    const outer = outermost([...roots, ...regions.map(({ path }) => path)]);
    const whole = new Set(regions.map(({ path }) => JSON.stringify(path)));
    const removed = outer.filter((path) => !whole.has(JSON.stringify(path))).map((path) => ({ path, text: undefined }));
    return this.apply([...removed, ...regions]);
  }

  /**
   * The text of a document as written; undefined if there is none. Elements of arrays have no path.
   */
  read(path: DocPath): string | undefined {
    let at: Doc | undefined = this.#root;
    for (const segment of path) {
      at = typeof at === 'string' ? expanded(at)?.get(segment) : at?.get(segment);
      if (at === undefined) return undefined;
    }
    return textOf(at);
  }

  /** All documents as one JSON text. */
  text(): string {
    return textOf(this.#root);
  }

  /** The documents at and below some places, as one JSON text from the root on. */
  textBelow(places: readonly DocPath[]): string {
    const part = new Documents();
    const found = outermost(places).flatMap((path) => {
      const text = this.read(path);
      return text === undefined ? [] : [{ path, text }];
    });
    part.apply(found);
    return part.text();
  }

  #atRoot({ path, text }: DocumentOp): DocumentOp[] {
    const next = text === undefined ? new Map<string, string>() : expanded(text.trim());
    if (next === undefined) throw refusal(path, 'the root of all documents must be an object');
    const gone = [...this.#root.keys()].filter((key) => !next.has(key));
    return [
      ...gone.map((key) => ({ path: [key], text: undefined })),
      ...[...next].map(([key, value]) => ({ path: [key], text: value })),
    ];
  }

  /** Returns whether it changed anything. */
  #applyOne({ path, text }: DocumentOp, undone: (() => void)[]): boolean {
    const name = path.at(-1);
    if (name === undefined) return false;
    const parent = this.#parentOf(path, text !== undefined, undone);
    if (parent === undefined) return false;
    const before = parent.get(name);
    if (text === undefined && before === undefined) return false;
    undone.push(() => {
      if (before === undefined) parent.delete(name);
      else parent.set(name, before);
    });
    if (text === undefined) parent.delete(name);
    else parent.set(name, text.trim());
    return true;
  }

  /** The members of the parent; undefined if there is none, which a put creates. */
  #parentOf(path: DocPath, isPut: boolean, undone: (() => void)[]): Map<string, Doc> | undefined {
    let at = this.#root;
    for (const [depth, segment] of path.slice(0, -1).entries()) {
      const above = at;
      const child = at.get(segment);
      let inner = typeof child === 'string' ? expanded(child) : child;
      if (inner === undefined) {
        if (!isPut) return undefined;
        if (child !== undefined) throw noObject(path.slice(0, depth + 1), path);
        inner = new Map();
        undone.push(() => above.delete(segment));
      }
      if (inner !== child) above.set(segment, inner); // cut into its members, which changes no value
      at = inner;
    }
    return at;
  }
}

function assertDepth({ path, text = '' }: DocumentOp): void {
  const problem = depthProblem(text, path.length);
  if (problem !== undefined) throw refusal(path, problem);
}

function noObject(at: DocPath, path: DocPath): EngineRefusal {
  return refusal(path, `${docPathText(at)} has a value that is no object, so nothing can be below it`);
}

function expanded(text: string): Map<string, string> | undefined {
  return jsonKind(text) === 'object' ? members(text) : undefined;
}

function textOf(doc: Doc): string {
  if (typeof doc === 'string') return doc;
  return objectText([...doc].map(([key, value]) => [key, textOf(value)] as const));
}

/** A change that the documents cannot take: OPA refuses it, too. */
function refusal(path: DocPath, reason: string): EngineRefusal {
  return new EngineRefusal(`${docPathText(path)}: ${reason}`);
}
