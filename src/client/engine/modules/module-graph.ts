import { type RegoOutline, regoOutline } from './rego-outline.js';

/** Modules by path, with their Rego text. */
export type Modules = ReadonlyMap<string, string>;

/**
 * A module, or what several modules are read by: each is linked once to that, so that a graph is as
 * large as the texts of its modules.
 */
type Vertex = string | Hub;

/** All modules of a package, all that define a name there, or all at a place and below it. */
class Hub {
  readonly to = new Set<Vertex>();
}

/** A place of packages. */
interface Place {
  /** The modules of the package that is exactly here. */
  readonly modules: Set<string>;
  readonly own: Hub;
  /** The modules here and below. */
  readonly all: Hub;
  readonly definers: Map<string, Hub>;
  readonly children: Map<string, Place>;
}

/**
 * Which modules read what others define, in any of some versions of them: rather too much than too
 * little.
 */
export class ModuleGraph {
  readonly #links = new Map<string, Set<Vertex>>();
  readonly #root = newPlace();
  /** Those with modules. */
  readonly #packages = new Set<Place>();
  /** Modules and hubs that need each other, each group after all that it reads. */
  readonly #groups: readonly (readonly Vertex[])[];
  /** Groups of modules that need each other, each after all that it reads. */
  readonly groups: readonly (readonly string[])[];

  /** `versions`: the order of the first is kept among modules that do not need each other. */
  constructor(...versions: readonly Modules[]) {
    const outlines = versions.flatMap((modules) => [...modules].map(([id, rego]) => ({ id, ...regoOutline(rego) })));
    for (const { id, package: path, heads } of outlines) {
      if (path === undefined) continue;
      const place = this.#placeAt(path);
      this.#packages.add(place);
      place.modules.add(id);
      place.own.to.add(id);
      for (const name of heads.keys()) {
        const definers = place.definers.get(name) ?? new Hub();
        place.definers.set(name, definers);
        definers.to.add(id);
      }
    }
    for (const outline of outlines) this.#link(outline.id, outline);
    this.#groups = groupsOf<Vertex>([...this.#links.keys()], (vertex) => this.#next(vertex));
    this.groups = this.#groups.map((group) => group.filter(isModule)).filter((group) => group.length > 0);
  }

  #placeAt(path: readonly string[]): Place {
    let place = this.#root;
    for (const segment of path) {
      let child = place.children.get(segment);
      if (child === undefined) {
        child = newPlace();
        place.children.set(segment, child);
        place.all.to.add(child.all);
      }
      place = child;
    }
    return place;
  }

  #link(id: string, { package: path, words, refs }: RegoOutline): void {
    const links = this.#links.get(id) ?? new Set();
    this.#links.set(id, links);
    for (const ref of refs) {
      let place: Place | undefined = this.#root;
      for (const segment of ref) {
        if (place === undefined) break;
        links.add(place.own);
        place = place.children.get(segment);
      }
      if (place !== undefined) links.add(place.all);
    }
    if (path === undefined) return;
    const { definers } = this.#placeAt(path);
    for (const name of words) {
      const hub = definers.get(name);
      if (hub !== undefined) links.add(hub);
    }
  }

  #next(vertex: Vertex): ReadonlySet<Vertex> {
    return isModule(vertex) ? (this.#links.get(vertex) ?? NONE) : vertex.to;
  }

  /** Whether a module reads one of these, other than itself. */
  readsOneOf(id: string, ids: ReadonlySet<string>): boolean {
    if (ids.size === 0) return false;
    const seen = new Set<Vertex>([id]);
    for (const vertex of seen) {
      if (vertex !== id && isModule(vertex)) {
        if (ids.has(vertex)) return true;
      } else for (const other of this.#next(vertex)) seen.add(other);
    }
    return false;
  }

  /** The modules that read one of these, or a module that does, and these themselves. */
  withReaders(ids: ReadonlySet<string>): ReadonlySet<string> {
    const found = new Set<Vertex>(ids);
    for (const group of this.#groups) {
      const isConcerned = group.some((one) => found.has(one) || [...this.#next(one)].some((other) => found.has(other)));
      if (isConcerned) for (const one of group) found.add(one);
    }
    return new Set([...found].filter(isModule));
  }

  /**
   * The modules that would show parts of two sets if these changed one after the other: each that
   * depends on more than one of them, itself included, and in a package of which that is true all
   * that depend on one.
   */
  mixing(ids: ReadonlySet<string>): ReadonlySet<string> {
    const found = new Set<string>();
    const below = this.#twoBelow(ids);
    for (const [id, seen] of below) if (seen.size > 1 && isModule(id)) found.add(id);
    for (const { modules } of this.#packages) {
      const seen = new Set([...modules].flatMap((id) => [...(below.get(id) ?? NO_MODULES)]));
      if (seen.size > 1) for (const id of modules) if ((below.get(id)?.size ?? 0) > 0) found.add(id);
    }
    return found;
  }

  /** Of these modules, the first two that each one depends on, itself included. */
  #twoBelow(ids: ReadonlySet<string>): ReadonlyMap<Vertex, ReadonlySet<string>> {
    const below = new Map<Vertex, ReadonlySet<string>>();
    for (const group of this.#groups) {
      const seen = new Set(
        group
          .filter(isModule)
          .filter((id) => ids.has(id))
          .slice(0, 2),
      );
      for (const one of group) {
        for (const other of this.#next(one))
          for (const id of below.get(other) ?? NO_MODULES) if (seen.size < 2) seen.add(id);
      }
      for (const one of group) below.set(one, seen);
    }
    return below;
  }
}

const NONE: ReadonlySet<Vertex> = new Set();
const NO_MODULES: ReadonlySet<string> = new Set();

function isModule(vertex: Vertex): vertex is string {
  return typeof vertex === 'string';
}

function newPlace(): Place {
  const [own, all] = [new Hub(), new Hub()];
  all.to.add(own);
  return { modules: new Set(), own, all, definers: new Map(), children: new Map() };
}

/**
 * The strongly connected groups of a graph (Tarjan), each after those that it leads to; without
 * recursion.
 */
function groupsOf<T>(ids: readonly T[], next: (id: T) => Iterable<T>): T[][] {
  const groups: T[][] = [];
  const index = new Map<T, number>();
  const low = new Map<T, number>();
  const open: T[] = [];
  const isOpen = new Set<T>();
  const enter = (id: T): { id: T; rest: Iterator<T> } => {
    index.set(id, index.size);
    low.set(id, index.size - 1);
    open.push(id);
    isOpen.add(id);
    return { id, rest: next(id)[Symbol.iterator]() };
  };
  const lower = (id: T, to: number): void => {
    low.set(id, Math.min(low.get(id) ?? to, to));
  };
  for (const start of ids) {
    if (index.has(start)) continue;
    const way = [enter(start)];
    for (let at = way.at(-1); at !== undefined; at = way.at(-1)) {
      const { id, rest } = at;
      const step = rest.next();
      if (step.done !== true) {
        const known = index.get(step.value);
        if (known === undefined) way.push(enter(step.value));
        else if (isOpen.has(step.value)) lower(id, known);
        continue;
      }
      way.pop();
      const own = low.get(id) ?? 0;
      const above = way.at(-1);
      if (above !== undefined) lower(above.id, own);
      if (own !== index.get(id)) continue;
      const group = open.splice(open.lastIndexOf(id));
      for (const member of group) isOpen.delete(member);
      groups.push(group);
    }
  }
  return groups;
}
