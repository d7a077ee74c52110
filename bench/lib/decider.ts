import { join } from 'node:path';
import { type Child, type Failed, startChild } from '../../test/support/child.js';

/** Decides in a process of its own, so that the bench does not share its event loop. `await using` ends it. */
export interface Decider extends AsyncDisposable {
  /** Asks so many questions at a time, over and over. Returns decisions per second, for each slice. */
  count(asking: Asking): Promise<readonly number[]>;
  /** Asks so many questions in all. */
  decide(asking: Pick<Asking, 'inFlight'> & { readonly decisions: number }): Promise<void>;
  /** Resident memory of the process. */
  memoryBytes(): Promise<number>;
}

/** How much is asked. */
export interface Asking {
  readonly inFlight: number;
  readonly slices: number;
  readonly sliceMs: number;
}

/** What decides. */
export type DeciderKind =
  /** A client in the process, by the library; resolves once it is ready. Settings as SYNC_... names. */
  | { readonly what: 'client'; readonly settings: Readonly<Record<string, string>> }
  /** The SDK `@open-policy-agent/opa-wasm` with a policy that OPA has compiled, and its data. */
  | { readonly what: 'opa-wasm'; readonly wasmFile: string; readonly dataFile: string };

/** What the process is told. */
export type Order =
  | ({ readonly do: 'start' } & DeciderKind)
  | ({ readonly do: 'count' } & Asking)
  | { readonly do: 'decide'; readonly inFlight: number; readonly decisions: number }
  | { readonly do: 'memory' };
/** What it answers. */
export type Report = { readonly values: readonly number[] } | Failed;

/** Starts the process. Rejects if it cannot decide. */
export async function startDecider(kind: DeciderKind): Promise<Decider> {
  const child: Child<Order, Report> = startChild<Order, Report>(join(import.meta.dirname, 'decider-process.js'));
  try {
    await child.order({ do: 'start', ...kind });
  } catch (error) {
    await child[Symbol.asyncDispose]();
    throw error;
  }
  return {
    count: async (asking) => (await child.order({ do: 'count', ...asking })).values,
    decide: async (asking) => void (await child.order({ do: 'decide', ...asking })),
    memoryBytes: async () => (await child.order({ do: 'memory' })).values[0] ?? 0,
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  };
}
