import { type Layer, LayerSet } from '../client/desired/layers.js';
import { folderPath, staticLayers } from '../client/desired/policy-content.js';
import { checkOnlyEngine, startCheckGo } from '../client/engine/check-only.js';
import type { PolicySet } from '../client/engine/engine.js';
import { regionsText } from '../client/engine/modules/bundle-archive.js';
import { packageRoots } from '../client/engine/modules/bundle-roots.js';
import { importsRego, namesInV0, regoWords } from '../client/engine/modules/rego-outline.js';
import type { RegoMode } from '../client/engine/modules/rego-versions.js';
import { AUTHZ_PATH } from '../client/engine/opa/opa-authz.js';
import { assertNotReserved, assertPackagesNotReserved, assertRoomFor } from '../client/reconcile/collisions.js';
import { regionsOf } from '../client/reconcile/engine-copy.js';
import { COMPILE_MS, EntrypointCompiler } from '../embedded/entrypoint-compiler.js';
import { EntrypointTable, type GoEntrypoint } from '../embedded/entrypoints.js';
import type { EmbeddedPolicy, GoEngine, PolicyFacts, RegoModule } from '../embedded/types.js';
import { type EngineProblem, EngineRefusal } from '../embedded/vocabulary.js';
import { Places } from '../lib/net/places.js';
import { directoryOf, isWithin } from '../server/policy/bundle/directories.js';
import type { CommitProblem } from '../wire/commit-problem.js';
import { nodeText } from '../wire/json-node.js';
import type { CheckJob, Module, TextFile } from './messages.js';

/** Of a call that prepares a whole policy. */
const WORK_MS = 120_000;

/** What OPA says of a policy. */
export interface Compiled {
  readonly opaVersion: string;
  readonly problems: readonly EngineProblem[];
  /** Paths of the modules that are read as Rego v0. */
  readonly v0: ReadonlySet<string>;
  /** What OPA took, and found out about it; undefined if it does not compile. */
  readonly taken:
    | { readonly policy: EmbeddedPolicy; readonly documents: string; readonly facts: PolicyFacts }
    | undefined;
}

/** How an embedded engine answers decisions: by compiled policy, or by OPA's Go code, and why. */
export interface Entrypoints {
  readonly compiled: readonly string[];
  readonly withGo: readonly GoEntrypoint[];
}

/** The settings of the embedded engine that decide about it. */
interface EntrypointSettings {
  readonly embeddedEntrypoints: readonly string[];
  readonly embeddedMaxEntrypoints: number;
  readonly embeddedMemoryLimitBytes: number;
}

/** Static data as one document, and as what a client checks a policy with. */
export interface StaticData {
  readonly layers: readonly Layer[];
  /** The whole document, as JSON. */
  readonly document: string;
}

/** Composes data files in load order, as a client does. */
export function composeData(data: readonly TextFile[]): StaticData {
  const files = data.map(({ path, text }) => ({ folder: directoryOf(path), text }));
  const layers = staticLayers({ hash: '', modules: new Map(), data: files });
  const root = layerSet(layers).compose([]);
  return { layers, document: root === undefined ? '{}' : nodeText(root) };
}

/** The last data file whose document covers a path. */
export function dataFileAt(data: readonly TextFile[], path: readonly string[]): string | undefined {
  const covers = (folder: readonly string[]): boolean =>
    folder.length <= path.length
      ? folder.every((segment, index) => path[index] === segment)
      : path.every((segment, index) => folder[index] === segment);
  return data.findLast((file) => covers(folderPath(directoryOf(file.path))))?.path;
}

/** What a check asks of OPA's own code; no call leaves anything behind. */
export type CheckGo = Pick<GoEngine, 'parse' | 'check' | 'version' | 'kill'>;

/** Starts OPA's own code for one check, which kills it. */
export type StartGo = (env: NodeJS.ProcessEnv, memoryLimitBytes?: number) => Promise<GoEngine>;

/**
 * Compiles decisions as the embedded engine of a client does that has no other documents, within
 * the limits that it has. In a process of its own, which may come to its end by one of them.
 */
export async function compiledEntrypoints(
  { policy, documents, facts }: NonNullable<Compiled['taken']>,
  { embeddedEntrypoints: fixed, embeddedMaxEntrypoints: max, embeddedMemoryLimitBytes: memory }: EntrypointSettings,
  env: NodeJS.ProcessEnv,
  startGo: StartGo = startCheckGo,
): Promise<Entrypoints> {
  const table = new EntrypointTable(max, { fixed, known: [] });
  table.newPolicy(new Places(facts.rulePaths));
  const limits = { decisionMs: COMPILE_MS, workMs: WORK_MS, compileMs: COMPILE_MS, idleMs: WORK_MS };
  const compiler = new EntrypointCompiler(limits, { start: () => startGo(env, memory) });
  try {
    const paths = Promise.resolve(table.toCompile());
    const { set, failed } = await compiler.compile({ policy, documents, paths, isWanted: () => true });
    table.compiled(set);
    table.failed(failed);
  } finally {
    await compiler.close();
  }
  return { compiled: table.compiledPaths(), withGo: table.withGo() };
}

/** The engine of a check: compiles policies as clients do, and keeps none. */
export class CheckEngine implements AsyncDisposable {
  readonly #go: CheckGo;
  readonly #mode: RegoMode;

  constructor(go: CheckGo, mode: RegoMode) {
    this.#go = go;
    this.#mode = mode;
  }

  static async start(mode: RegoMode, env: NodeJS.ProcessEnv, startGo: StartGo = startCheckGo): Promise<CheckEngine> {
    return new CheckEngine(await startGo(env), mode);
  }

  /**
   * Compiles modules with their static data, each as the version of Rego that a client decides on.
   */
  async compile(modules: readonly Module[], { layers }: StaticData): Promise<Compiled> {
    const policy: PolicySet = { hash: 'check', modules: new Map(modules.map(({ path, text }) => [path, text])) };
    let v0: ReadonlySet<string> = new Set();
    let taken: Compiled['taken'];
    const engine = checkOnlyEngine(this.#go, {
      mode: this.#mode,
      reserved: [AUTHZ_PATH],
      check: async (embedded, regions) => {
        v0 = new Set(embedded.modules.filter(({ version }) => version === 0).map(({ path }) => path));
        const documents = regionsText(regions);
        taken = { policy: embedded, documents, facts: await this.#go.check(embedded, documents) };
      },
    });
    const places = packageRoots(policy);
    const statics = layerSet(layers);
    const problems: EngineProblem[] = [];
    const judge = async (step: () => void | Promise<void>): Promise<void> => {
      try {
        await step();
      } catch (error) {
        if (!(error instanceof EngineRefusal)) throw error;
        problems.push(...error.problems);
      }
    };
    await judge(() => assertNotReserved(layers, engine.reserved));
    await judge(() => assertPackagesNotReserved(policy, engine.reserved, true));
    await judge(() => assertRoomFor(statics, places, { policy }));
    const regions = problems.length === 0 ? regionsOf(statics, places) : [];
    await judge(() => engine.check(policy, regions, new AbortController().signal));
    if (problems.length === 0) {
      const unread = async (doubtful: readonly RegoModule[]): Promise<readonly string[]> => this.#go.parse(doubtful, 0);
      problems.push(...(await declaredProblems(modules, v0, unread)));
    }
    const listed = problems.map((problem) =>
      problem.message === 'error limit reached' ? { message: 'there are more errors: OPA stops here' } : problem,
    );
    return { opaVersion: this.#go.version, problems: listed, v0, taken: problems.length === 0 ? taken : undefined };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#go.kill('the check has ended');
  }
}

function layerSet(layers: readonly Layer[]): LayerSet {
  const set = new LayerSet();
  for (const layer of layers) set.set(layer);
  return set;
}

/** Problems in one answer, and characters of each. */
const MOST_PROBLEMS = 5;
const MOST_CHARS = 500;

/** Compiles each set of folders; returns what OPA finds, each problem once. */
export async function judgeJob(job: CheckJob, engine: Pick<CheckEngine, 'compile'>): Promise<CommitProblem[]> {
  const found = new Map<string, CommitProblem>();
  for (const folders of job.sets) {
    const taken = ({ path }: TextFile): boolean => folders.some((folder) => isWithin(path, folder));
    const data = job.data.filter(taken);
    const { problems } = await engine.compile(job.modules.filter(taken), composeData(data));
    for (const problem of problems.map((each) => asCommitProblem(each, data))) {
      found.set(JSON.stringify(problem), problem);
    }
  }
  return [...found.values()].slice(0, MOST_PROBLEMS);
}

/** A conflict of data with a rule is named with the data file, if the rule's is not known. */
function asCommitProblem(
  { message, file, row, conflictPath }: EngineProblem,
  data: readonly TextFile[],
): CommitProblem {
  const source = conflictPath === undefined ? undefined : dataFileAt(data, conflictPath);
  const which = source === undefined || file === undefined ? '' : ` (its value is in ${source})`;
  const place = file ?? source;
  return {
    message: `does not compile: ${message.slice(0, MOST_CHARS)}${which}`,
    ...(place !== undefined && { file: place }),
    ...(file !== undefined && row !== undefined && { line: row }),
  };
}

/**
 * The modules of a bundle that mean something else as clients read them than as the version of Rego
 * that its manifest declares. `v0`: those that clients read as v0, all others as v1. `parse`
 * returns the paths of modules that do not parse as v0.
 */
export async function declaredProblems(
  modules: readonly Module[],
  v0: ReadonlySet<string>,
  parse: (modules: readonly RegoModule[]) => Promise<readonly string[]>,
): Promise<EngineProblem[]> {
  const problems: EngineProblem[] = [];
  const doubtful: RegoModule[] = [];
  for (const { path: file, text, declared } of modules) {
    const read = v0.has(file) ? 0 : 1;
    if (declared === undefined || declared === read) continue;
    const said = `.manifest declares it as Rego v${declared}`;
    const words = regoWords(text);
    const hasV1 = importsRego(words);
    if (declared === 2) problems.push({ file, message: `${said}, which clients do not read` });
    else if (declared === 1 && !hasV1) {
      problems.push({ file, message: `${said}, and clients read it as v0: ${ONE_VERSION}` });
    } else if (declared === 0 && !hasV1) {
      const other = namesInV0(words);
      if (other.length === 0) doubtful.push({ path: file, rego: text });
      else {
        const names = other.map((name) => `\`${name}\``).join(', ');
        const message = `${said}, where ${names} is a name unless it is imported, and clients read it as v1: ${IMPORT}`;
        problems.push({ file, message });
      }
    }
  }
  const unread = doubtful.length === 0 ? [] : await parse(doubtful);
  const message = `.manifest declares it as Rego v0, as which it does not parse, and clients read it as v1: ${ONE_VERSION}`;
  return [...problems, ...unread.map((file) => ({ file, message }))];
}

const ONE_VERSION = 'build the bundle for the version that it is written in';
const IMPORT = 'import rego.v1 in it, or build the bundle as Rego v1';
