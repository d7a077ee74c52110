import { type Layer, LayerSet } from '../client/desired/layers.js';
import { folderPath, staticLayers } from '../client/desired/policy-content.js';
import { packageRoots, regionsText } from '../client/engine/bundle-archive.js';
import { EmbeddedEngine } from '../client/engine/embedded-engine.js';
import { type EngineProblem, EngineRefusal, type PolicySet } from '../client/engine/engine.js';
import { AUTHZ_PATH } from '../client/engine/opa-authz.js';
import { type RegoMode, RegoVersions } from '../client/engine/rego-versions.js';
import { assertNotReserved, assertPackagesNotReserved, assertRoomFor } from '../client/reconcile/collisions.js';
import { regionsOf } from '../client/reconcile/engine-copy.js';
import type { GoHost } from '../embedded/go/go-host.js';
import { GoProcess } from '../embedded/go/go-process.js';
import { TimedGo } from '../embedded/timed-go.js';
import type { GoEngine, PolicyFacts } from '../embedded/types.js';
import { childEnv } from '../lib/child-env.js';
import { directoryOf } from '../server/bundle/directories.js';
import { nodeText } from '../wire/json-node.js';
import type { TextFile } from './messages.js';

/** Compiling thousands of modules takes seconds; after this time the engine is considered hung. */
const TIMEOUT_MS = 120_000;

/** What OPA says of a policy. */
export interface Compiled {
  readonly opaVersion: string;
  readonly problems: readonly EngineProblem[];
  /** Paths of the modules that are read as Rego v0. */
  readonly v0: ReadonlySet<string>;
  /** Built-in functions that it calls; empty if it does not compile. */
  readonly builtins: readonly string[];
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
export type StartGo = (env: NodeJS.ProcessEnv) => Promise<CheckGo>;

/** Policies that call `http.send` compile with it; nothing is evaluated. */
export const SENDS_NOTHING: GoHost = { fetch: () => Promise.reject(new Error('a check sends no requests')) };

/** In a process of its own. */
const startGoProcess: StartGo = async (env) => {
  const go = await GoProcess.start({ env: childEnv(env, 'engine'), host: SENDS_NOTHING });
  return new TimedGo(go, { decisionMs: TIMEOUT_MS, workMs: TIMEOUT_MS });
};

/** The engine of a check: compiles policies as clients do, and keeps none. */
export class CheckEngine implements AsyncDisposable {
  readonly #go: CheckGo;
  readonly #mode: RegoMode;

  constructor(go: CheckGo, mode: RegoMode) {
    this.#go = go;
    this.#mode = mode;
  }

  static async start(mode: RegoMode, env: NodeJS.ProcessEnv, startGo = startGoProcess): Promise<CheckEngine> {
    return new CheckEngine(await startGo(env), mode);
  }

  /** Compiles modules with their static data, each as the version of Rego that a client decides on. */
  async compile(modules: readonly TextFile[], { layers }: StaticData): Promise<Compiled> {
    const policy: PolicySet = { hash: 'check', modules: new Map(modules.map(({ path, text }) => [path, text])) };
    let v0: ReadonlySet<string> = new Set();
    let facts: PolicyFacts | undefined;
    const versions = new RegoVersions(this.#mode, {
      parse: async (texts, version) =>
        new Set(
          await this.#go.parse(
            [...texts].map(([path, rego]) => ({ path, rego })),
            version,
          ),
        ),
    });
    const engine = new EmbeddedEngine(
      {
        check: async (embedded, regions) => {
          v0 = new Set(embedded.modules.filter(({ version }) => version === 0).map(({ path }) => path));
          facts = await this.#go.check(embedded, regionsText(regions));
        },
        activate: notHere,
        write: notHere,
        read: notHere,
      },
      { reserved: [AUTHZ_PATH], versions },
    );
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
    await judge(() => assertPackagesNotReserved(places, engine.reserved, true));
    await judge(() => assertRoomFor(statics, places));
    const regions = problems.length === 0 ? regionsOf(statics, places) : [];
    await judge(() => engine.check(policy, regions, new AbortController().signal));
    const listed = problems.map((problem) =>
      problem.message === 'error limit reached' ? { message: 'there are more errors: OPA stops here' } : problem,
    );
    return { opaVersion: this.#go.version, problems: listed, v0, builtins: facts?.builtins ?? [] };
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

async function notHere(): Promise<never> {
  throw new Error('a check activates nothing');
}
