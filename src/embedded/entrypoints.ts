import { Places } from '../lib/net/places.js';
import { NO_RULE } from '../wire/client-health.js';
import type { CompiledSet } from './types.js';

/**
 * What is known of a path that was asked for. `new`: once, and Go answers it; `wanted`: it is
 * compiled soon; `go`: Go answers it, until the policy changes.
 */
export type EntrypointState =
  | { readonly kind: 'new' }
  | { readonly kind: 'wanted' }
  | { readonly kind: 'compiled' }
  | { readonly kind: 'go'; readonly reason: string };

interface Entry {
  state: EntrypointState;
  /** It was asked for more than once, or is one of the settings or of the last run. */
  isRegular: boolean;
  /** A compilation with it failed, or took too much: the next policy does not wait for it. */
  isSuspect: boolean;
  /** The greater, the later it was asked for. */
  used: number;
}

/** A path that Go answers, and why. */
export interface GoEntrypoint {
  readonly path: string;
  readonly reason: string;
}

const NEW: EntrypointState = { kind: 'new' };
const WANTED: EntrypointState = { kind: 'wanted' };
const COMPILED: EntrypointState = { kind: 'compiled' };
const WITHOUT_RULE: EntrypointState = { kind: 'go', reason: NO_RULE };

/**
 * The paths that were asked for, and how each is answered. What is asked for once is not compiled:
 * that costs seconds of processor time, and many a path has the name of somebody in it. The number
 * of compiled ones is limited: the least recently used is left out, except those that the settings
 * name.
 */
export class EntrypointTable {
  readonly #max: number;
  readonly #fixed: ReadonlySet<string>;
  readonly #entries = new Map<string, Entry>();
  #rules = new Places();
  #clock = 0;

  /**
   * `fixed`: those of the settings; `known`: those of the last run, the least recently used first.
   */
  constructor(max: number, { fixed, known }: { fixed: readonly string[]; known: readonly string[] }) {
    this.#max = max;
    this.#fixed = new Set(fixed.map(entrypointName));
    for (const path of [...known, ...fixed].map(entrypointName)) {
      this.use(path);
      this.use(path);
    }
  }

  /** Notes that a path was asked for. Returns whether it waits to be compiled. */
  use(path: string): boolean {
    const known = this.#entries.get(path);
    if (known !== undefined) this.#useAgain(known);
    const entry = known ?? this.#add(path);
    entry.used = ++this.#clock;
    return entry.state.kind === 'wanted';
  }

  state(path: string): EntrypointState | undefined {
    return this.#entries.get(path)?.state;
  }

  /** Another policy is active: all is open again. */
  newPolicy(rules: Places): void {
    this.#rules = rules;
    for (const [path, entry] of this.#entries) entry.state = initialState(path, this.#rules, entry.isRegular);
  }

  /**
   * The paths in use to compile together, the latest first, those that are compiled now before all
   * others.
   */
  toCompile(): string[] {
    const latest = this.#latest(({ state }) => !isWithGo(state));
    const isCompiled = (path: string): boolean => this.state(path)?.kind === 'compiled';
    return [...latest.filter(isCompiled), ...latest.filter((path) => !isCompiled(path))];
  }

  /**
   * The paths to compile with a policy that has these rules, before it is active: those that a
   * compilation failed with come later.
   */
  toCompileFirst(rules: Places): string[] {
    return this.#latest(
      ({ isRegular, isSuspect }, path) => !isSuspect && initialState(path, rules, isRegular) === WANTED,
    );
  }

  /** Whether a path was asked for more than once, or is one of the settings or of the last run. */
  get hasRegular(): boolean {
    return [...this.#entries.values()].some(({ isRegular }) => isRegular);
  }

  /** Whether a path waits to be compiled. */
  get hasWanted(): boolean {
    return [...this.#entries.values()].some(({ state }) => state.kind === 'wanted');
  }

  /** Notes the result of a compilation. */
  compiled(set: CompiledSet): void {
    for (const { path, compiled, reason = 'the compiler gives no reason' } of set.entrypoints) {
      const entry = this.#entries.get(path);
      if (entry === undefined) continue;
      entry.state = compiled ? COMPILED : { kind: 'go', reason };
      entry.isSuspect = false;
    }
    this.#forgetOldest();
  }

  /** Go answers these until the policy changes: to compile them failed, or took too much. */
  failed(reasons: ReadonlyMap<string, string>): void {
    for (const [path, reason] of reasons) {
      const entry = this.#entries.get(path);
      if (entry === undefined) continue;
      entry.state = { kind: 'go', reason };
      entry.isSuspect = true;
    }
    this.#forgetOldest();
  }

  /** Go answers these from now on. */
  leaveToGo(paths: readonly string[], reason: string): void {
    for (const path of paths) {
      const entry = this.#entries.get(path);
      if (entry !== undefined) entry.state = { kind: 'go', reason };
    }
    this.#forgetOldest();
  }

  /** The compiled paths, the least recently used first: what another run begins with. */
  compiledPaths(): string[] {
    return [...this.#entries]
      .filter(([, { state }]) => state.kind === 'compiled')
      .sort(([, one], [, other]) => one.used - other.used)
      .map(([path]) => path);
  }

  /**
   * The paths that Go answers: those that could be compiled first, of many the ones that are shown.
   */
  withGo(): GoEntrypoint[] {
    const all = [...this.#entries].flatMap(([path, { state }]) =>
      state.kind === 'go' ? [{ path, reason: state.reason }] : [],
    );
    const isWithoutRule = ({ reason }: GoEntrypoint): boolean => reason === NO_RULE;
    return [...all.filter((one) => !isWithoutRule(one)), ...all.filter(isWithoutRule)];
  }

  #latest(isTaken: (entry: Entry, path: string) => boolean): string[] {
    return [...this.#entries]
      .filter(([path, entry]) => isTaken(entry, path))
      .sort(([, one], [, other]) => other.used - one.used)
      .map(([path]) => path)
      .slice(0, this.#max);
  }

  #useAgain(entry: Entry): void {
    entry.isRegular = true;
    if (entry.state !== NEW) return;
    this.#makeRoom(WANTED);
    entry.state = WANTED;
  }

  #add(path: string): Entry {
    const entry: Entry = { state: initialState(path, this.#rules, false), isRegular: false, isSuspect: false, used: 0 };
    this.#makeRoom(entry.state);
    this.#entries.set(path, entry);
    return entry;
  }

  /** Of the paths that Go answers, as many are kept as may be compiled. */
  #forgetOldest(): void {
    const withGo = [...this.#entries].filter(([, { state }]) => isWithGo(state));
    const free = withGo.filter(([path]) => !this.#fixed.has(path)).sort(([, one], [, other]) => one.used - other.used);
    for (const [path] of free.slice(0, Math.max(0, withGo.length - this.#max))) this.#entries.delete(path);
  }

  /**
   * As many paths that Go answers are known as may be compiled: what they were is found out again.
   */
  #makeRoom(next: EntrypointState): void {
    const alike = [...this.#entries].filter(([, { state }]) => isWithGo(state) === isWithGo(next));
    if (alike.length < this.#max) return;
    const free = alike.filter(([path]) => !this.#fixed.has(path));
    const oldest = free.reduce<(typeof free)[number] | undefined>(
      (least, one) => (least === undefined || one[1].used < least[1].used ? one : least),
      undefined,
    );
    if (oldest !== undefined) this.#entries.delete(oldest[0]);
  }
}

function initialState(path: string, rules: Places, isRegular: boolean): EntrypointState {
  if (!rules.overlap(path.split('/'))) return WITHOUT_RULE;
  return isRegular ? WANTED : NEW;
}

/** Whether Go answers it, and it waits for nothing. */
function isWithGo({ kind }: EntrypointState): boolean {
  return kind === 'go' || kind === 'new';
}

/** The name of an entrypoint: `/app/rbac/allow/` is `app/rbac/allow`. */
export function entrypointName(path: string): string {
  if (!path.startsWith('/') && !path.endsWith('/') && !path.includes('//')) return path;
  return path
    .split('/')
    .filter((segment) => segment !== '')
    .join('/');
}
