import { EngineRefusal } from '../../../embedded/vocabulary.js';
import type { ClientSettings } from '../../options.js';
import type { PolicySet } from '../engine.js';
import { namesInV0, regoWords } from './rego-outline.js';

/**
 * SYNC_ENGINE_V0_COMPAT: `auto`: each module as v1 if it can be parsed so, otherwise as v0; `v0`,
 * `v1`: all modules.
 */
export type RegoMode = 'auto' | 'v0' | 'v1';

/** The Rego version that the settings select. */
export function regoMode({
  inlineEngineConfig,
  engineV0Compat,
}: Pick<ClientSettings, 'inlineEngineConfig' | 'engineV0Compat'>): RegoMode {
  const compat = inlineEngineConfig?.v0_compatible?.toString() ?? engineV0Compat;
  return compat === 'auto' ? 'auto' : compat === 'true' ? 'v0' : 'v1';
}

/** Paths of the modules that are read as Rego v0; all others are v1. */
export type V0Modules = ReadonlySet<string>;

/** Number of modules of a policy by version. */
export interface RegoCounts {
  readonly v0: number;
  readonly v1: number;
}

/** Parses modules as a version of Rego; returns the paths of those that fail. */
export type RegoParser = (
  modules: ReadonlyMap<string, string>,
  version: 0 | 1,
  signal: AbortSignal,
) => Promise<ReadonlySet<string>>;

/** What the OPA program says of modules that v1 refuses. */
interface Decision {
  readonly v0: V0Modules;
  /** Those that are valid in v0, and not read so, since a keyword of v1 is a name there. */
  readonly otherInV0: ReadonlySet<string>;
}

/** A module that declares v1 and is valid in both versions. */
const IMPORTS_V1 = /^[ \t]*import[ \t]+rego\.v1\b/m;
/**
 * A rule whose body begins without `if`, as only v0 allows: `allow {`, `deny[msg] {`, `f(x) = y {`.
 */
const V0_RULE = /^[A-Za-z_]\w*(?:\[[^\]\n]*\]|\([^)\n]*\))?(?:[ \t]*:?=[ \t]*[\w"-]+)?[ \t]*\{/m;
/** Attempts with one policy: by its look, by parsing, and by the errors of the v1 compiler. */
const MAX_ROUNDS = 3;
/** Errors that only the v1 compiler reports, in modules that both versions can parse. */
const STRICT = /deprecated built-in|must not shadow/;

/**
 * Decides for each module of a policy which version of Rego it is read as. In mode `auto` a module
 * is v1, unless it cannot be parsed as v1 (or uses features that v1 removed) but can be parsed as
 * v0. Guesses first from the text, since running the OPA program takes time; runs the program only
 * if the engine refuses the guess.
 */
export class RegoVersions {
  readonly mode: RegoMode;
  readonly #parse: RegoParser;
  readonly #onRead: (counts: RegoCounts) => void;
  /** The last decisions, by path. */
  #known = new Map<string, { readonly rego: string; readonly isV0: boolean }>();
  #counts: RegoCounts | undefined;

  constructor(mode: RegoMode, deps: { parse: RegoParser; onRead?: (counts: RegoCounts) => void }) {
    this.mode = mode;
    this.#parse = deps.parse;
    this.#onRead = deps.onRead ?? (() => undefined);
  }

  /** Counts of the policy that the engine holds; undefined before the first. */
  get counts(): RegoCounts | undefined {
    return this.#counts;
  }

  /**
   * Tries a policy with the guessed versions, and again if it was refused because of them. Rejects
   * with the {@link EngineRefusal} of the last attempt. `isTaken`: the engine holds the policy
   * after `attempt`.
   */
  async settle(
    policy: PolicySet,
    attempt: (v0: V0Modules) => Promise<void>,
    signal: AbortSignal,
    isTaken = true,
  ): Promise<void> {
    let v0 = this.#guess(policy);
    const strict = new Set<string>();
    for (let round = 1; ; round++) {
      try {
        await attempt(v0);
        this.#keep(policy, v0, isTaken);
        return;
      } catch (error) {
        if (this.mode !== 'auto' || round === MAX_ROUNDS || !(error instanceof EngineRefusal)) throw error;
        for (const { message, file } of error.problems)
          if (file !== undefined && STRICT.test(message)) strict.add(file);
        const exact = await this.#decide(policy, strict, signal);
        if (isSame(exact.v0, v0)) throw withHints(error, policy, exact.otherInV0);
        v0 = exact.v0;
      }
    }
  }

  #guess({ modules }: PolicySet): V0Modules {
    if (this.mode === 'v1') return new Set();
    if (this.mode === 'v0') return new Set(modules.keys());
    return pathsWhere(modules, (rego, path) => {
      const known = this.#known.get(path);
      return known?.rego === rego ? known.isV0 : looksV0(rego) && meansV0(rego);
    });
  }

  /** Decides by the OPA program. `strict`: modules that the compiler refuses as v1. */
  async #decide({ modules }: PolicySet, strict: ReadonlySet<string>, signal: AbortSignal): Promise<Decision> {
    const open = new Map([...modules].filter(([, rego]) => !IMPORTS_V1.test(rego)));
    const notV1 = await this.#parse(open, 1, signal);
    const doubtful = new Map([...open].filter(([path]) => notV1.has(path) || strict.has(path)));
    if (doubtful.size === 0) return { v0: new Set(), otherInV0: new Set() };
    const notV0 = await this.#parse(doubtful, 0, signal);
    return {
      // A module that is valid in neither version is tried in the one it looks like, for the better
      // error message.
      v0: pathsWhere(doubtful, (rego, path) => (notV0.has(path) ? looksV0(rego) : meansV0(rego))),
      otherInV0: pathsWhere(doubtful, (rego, path) => !notV0.has(path) && !meansV0(rego)),
    };
  }

  #keep({ modules }: PolicySet, v0: V0Modules, isTaken: boolean): void {
    if (this.mode === 'auto') {
      this.#known = new Map([...modules].map(([path, rego]) => [path, { rego, isV0: v0.has(path) }]));
    }
    if (!isTaken) return;
    const counts = { v0: v0.size, v1: modules.size - v0.size };
    const isNews = this.#counts === undefined || counts.v0 !== this.#counts.v0 || counts.v1 !== this.#counts.v1;
    this.#counts = counts;
    if (isNews && modules.size > 0) this.#onRead(counts);
  }
}

/**
 * Returns the members of a bundle's manifest that define the Rego versions: that of most modules,
 * and the files of the other. OPA compares with the names in an archive, without a leading slash,
 * or in a folder, with one.
 */
export function manifestVersions(
  modules: ReadonlyMap<string, string>,
  v0: V0Modules,
): { rego_version: 0 | 1; file_rego_versions?: Record<string, 0 | 1> } {
  const others = v0.size * 2 > modules.size ? 1 : 0;
  const most = others === 0 ? 1 : 0;
  const files = [...modules.keys()].filter((path) => v0.has(path) === (others === 0));
  if (files.length === 0) return { rego_version: most };
  return {
    rego_version: most,
    file_rego_versions: Object.fromEntries(
      files.map(globLiteral).flatMap((path) => [[path, others] as const, [`/${path}`, others] as const]),
    ),
  };
}

/** OPA reads the files of a manifest as patterns. */
function globLiteral(path: string): string {
  return path.replaceAll(/[\\*?[\]{},!]/g, '\\$&');
}

function looksV0(rego: string): boolean {
  return V0_RULE.test(rego) && !IMPORTS_V1.test(rego);
}

/**
 * Whether no keyword of v1 is a name in v0: `allow := true if { .. }` is always true there. What v1
 * refuses with one is no module of v0.
 */
function meansV0(rego: string): boolean {
  return namesInV0(regoWords(rego)).length === 0;
}

/** Says of modules that are refused as v1 why they are not read as v0. */
function withHints(refusal: EngineRefusal, { modules }: PolicySet, otherInV0: ReadonlySet<string>): EngineRefusal {
  const problems = refusal.problems.map((problem) => {
    const { file = '', message } = problem;
    if (!otherInV0.has(file)) return problem;
    const [name] = namesInV0(regoWords(modules.get(file) ?? ''));
    return {
      ...problem,
      message: `${message} (not read as Rego v0, where \`${name}\` means something else unless it is imported)`,
    };
  });
  return new EngineRefusal(refusal.message, problems, refusal.partial);
}

function pathsWhere(modules: ReadonlyMap<string, string>, fits: (rego: string, path: string) => boolean): V0Modules {
  return new Set([...modules].flatMap(([path, rego]) => (fits(rego, path) ? [path] : [])));
}

function isSame(one: V0Modules, other: V0Modules): boolean {
  return one.size === other.size && [...one].every((path) => other.has(path));
}
