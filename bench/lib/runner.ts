import { tempDir } from '../../test/support/temp-dir.js';
import { type Figure, figure, type Measured } from './figure.js';
import type { Bench, Scenario } from './scenario.js';
import type { System } from './system.js';

/** What a run is made with. */
export interface RunOptions {
  readonly quick: boolean;
  readonly opa: string;
  readonly systems: readonly System[];
  onStart(what: string): void;
  /** A system could not be measured; the others are. */
  onFailure(what: string, error: unknown): void;
}

/** Measures the raw limit, then each system, each with a folder and processes of its own. */
export async function measureScenario(scenario: Scenario, options: RunOptions): Promise<Figure[]> {
  const figures: Figure[] = [];
  const add = async (system: string, measure: (bench: Bench) => Promise<readonly Measured[]>): Promise<void> => {
    const what = `${scenario.name}: ${system}`;
    options.onStart(what);
    try {
      const found = await withBench(options, measure);
      figures.push(...found.map((one) => figure(scenario.name, system, one)));
    } catch (error) {
      options.onFailure(what, error);
    }
  };
  await add('raw', (bench) => scenario.raw(bench));
  for (const system of options.systems) {
    if (scenario.withoutPeer === true && system.name === 'opal') continue;
    await add(system.name, (bench) => scenario.measure(bench, system));
  }
  return figures;
}

async function withBench<T>({ quick, opa }: RunOptions, use: (bench: Bench) => Promise<T>): Promise<T> {
  await using dir = await tempDir();
  await using parts = new Parts();
  return await use({
    quick,
    opa,
    dir: dir.path,
    keep: (part) => parts.keep(part),
    pick: (normal, short) => (quick ? short : normal),
  });
}

/** Ends parts in the opposite order of their start. */
class Parts implements AsyncDisposable {
  readonly #parts: AsyncDisposable[] = [];

  keep<P extends AsyncDisposable>(part: P): P {
    this.#parts.push(part);
    return part;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const part of this.#parts.splice(0).reverse()) await part[Symbol.asyncDispose]();
  }
}
