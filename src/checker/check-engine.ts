import { type Layer, LayerSet } from '../client/desired/layers.js';
import { folderPath, staticLayers } from '../client/desired/policy-content.js';
import { packageRoots, regionsText } from '../client/engine/bundle-archive.js';
import { checkOnlyEngine, startCheckGo } from '../client/engine/check-only.js';
import { type EngineProblem, EngineRefusal, type PolicySet } from '../client/engine/engine.js';
import { AUTHZ_PATH } from '../client/engine/opa-authz.js';
import type { RegoMode } from '../client/engine/rego-versions.js';
import { assertNotReserved, assertPackagesNotReserved, assertRoomFor } from '../client/reconcile/collisions.js';
import { regionsOf } from '../client/reconcile/engine-copy.js';
import { COMPILE_MS, EntrypointCompiler } from '../embedded/entrypoint-compiler.js';
import { EntrypointTable, type GoEntrypoint } from '../embedded/entrypoints.js';
import type { EmbeddedPolicy, GoEngine, PolicyFacts } from '../embedded/types.js';
import { Places } from '../lib/places.js';
import { directoryOf } from '../server/bundle/directories.js';
import { nodeText } from '../wire/json-node.js';
import type { TextFile } from './messages.js';

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
export interface EntrypointSettings {
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
 * Compiles decisions as the embedded engine of a client does that has no other documents, within the limits that it has. In a process of
 * its own, which may come to its end by one of them.
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

  /** Compiles modules with their static data, each as the version of Rego that a client decides on. */
  async compile(modules: readonly TextFile[], { layers }: StaticData): Promise<Compiled> {
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
