import { PathTree } from '../../lib/path-tree.js';
import { type RegoOutline, regoOutline } from './rego-outline.js';

/** Modules by path, with their Rego text. */
export type Modules = ReadonlyMap<string, string>;

/** The modules of a package, and which of them define a name. */
interface Package {
  readonly modules: Set<string>;
  readonly definers: Map<string, Set<string>>;
}

/** Which modules read what others define, in any of some versions of them: rather too much than too little. */
export class ModuleGraph {
  readonly #reads = new Map<string, ReadonlySet<string>>();
  readonly #packages = new Map<string, Package>();
  readonly #places = new PathTree<Package>();
  /** Groups of modules that need each other, each after all that it reads. */
  readonly groups: readonly (readonly string[])[];

  /** `versions`: the order of the first is kept among modules that do not need each other. */
  constructor(...versions: readonly Modules[]) {
    const outlines = versions.flatMap((modules) => [...modules].map(([id, rego]) => ({ id, ...regoOutline(rego) })));
    for (const { id, package: place, heads } of outlines) {
      if (place === undefined) continue;
      const { modules, definers } = this.#packageAt(place);
      modules.add(id);
      for (const name of heads.keys()) definers.set(name, (definers.get(name) ?? new Set()).add(id));
    }
    for (const outline of outlines) this.#link(outline.id, outline);
    this.groups = groupsOf([...this.#reads.keys()], (id) => this.reads(id));
  }

  #packageAt(place: readonly string[]): Package {
    const name = JSON.stringify(place);
    const known = this.#packages.get(name);
    if (known !== undefined) return known;
    const made: Package = { modules: new Set(), definers: new Map() };
    this.#packages.set(name, made);
    this.#places.add(place, made);
    return made;
  }

  #link(id: string, { package: place, words, refs }: RegoOutline): void {
    const found = new Set(this.#reads.get(id));
    for (const ref of refs) {
      for (const near of [this.#places.above(ref), this.#places.below(ref)])
        for (const { modules } of near) for (const other of modules) found.add(other);
    }
    const definers = place === undefined ? undefined : this.#packageAt(place).definers;
    for (const name of words) for (const other of definers?.get(name) ?? NONE) found.add(other);
    found.delete(id);
    this.#reads.set(id, found);
  }

  /** The modules that a module reads, without itself. */
  reads(id: string): ReadonlySet<string> {
    return this.#reads.get(id) ?? NONE;
  }

  /** The modules that read one of these, or a module that does, and these themselves. */
  withReaders(ids: ReadonlySet<string>): ReadonlySet<string> {
    const found = new Set(ids);
    for (const group of this.groups) {
      const isConcerned = group.some((id) => found.has(id) || [...this.reads(id)].some((other) => found.has(other)));
      if (isConcerned) for (const id of group) found.add(id);
    }
    return found;
  }

  /**
   * The modules that would show parts of two sets if these changed one after the other: each that depends on more than one of them,
   * itself included, and in a package of which that is true all that depend on one.
   */
  mixing(ids: ReadonlySet<string>): ReadonlySet<string> {
    const found = new Set<string>();
    const below = this.#twoBelow(ids);
    for (const [id, seen] of below) if (seen.size > 1) found.add(id);
    for (const { modules } of this.#packages.values()) {
      const seen = new Set([...modules].flatMap((id) => [...(below.get(id) ?? NONE)]));
      if (seen.size > 1) for (const id of modules) if ((below.get(id)?.size ?? 0) > 0) found.add(id);
    }
    return found;
  }

  /** Of these modules, the first two that each one depends on, itself included. */
  #twoBelow(ids: ReadonlySet<string>): ReadonlyMap<string, ReadonlySet<string>> {
    const below = new Map<string, ReadonlySet<string>>();
    for (const group of this.groups) {
      const seen = new Set(group.filter((id) => ids.has(id)).slice(0, 2));
      for (const id of group) {
        for (const other of this.reads(id))
          for (const one of below.get(other) ?? NONE) if (seen.size < 2) seen.add(one);
      }
      for (const id of group) below.set(id, seen);
    }
    return below;
  }
}

const NONE: ReadonlySet<string> = new Set();

/** The strongly connected groups of a graph (Tarjan), each after those that it leads to; without recursion. */
function groupsOf(ids: readonly string[], next: (id: string) => Iterable<string>): string[][] {
  const groups: string[][] = [];
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const open: string[] = [];
  const isOpen = new Set<string>();
  const enter = (id: string): { id: string; rest: Iterator<string> } => {
    index.set(id, index.size);
    low.set(id, index.size - 1);
    open.push(id);
    isOpen.add(id);
    return { id, rest: next(id)[Symbol.iterator]() };
  };
  const lower = (id: string, to: number): void => {
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
