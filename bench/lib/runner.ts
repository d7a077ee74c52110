import type { BackboneKind } from '../../test/support/backbone-servers.js';
import { tempDir } from '../../test/support/temp-dir.js';
import { type Figure, figure, type Measured, pooled } from './figure.js';
import type { Bench, Scenario } from './scenario.js';
import type { System } from './system.js';

/** What a run is made with. */
export interface RunOptions {
  readonly quick: boolean;
  readonly opa: string;
  readonly minutes: number | undefined;
  readonly backbone: BackboneKind | undefined;
  readonly systems: readonly System[];
  /** How often each system has its turn. */
  readonly turns: number;
  onStart(what: string): void;
  /** A system could not be measured; the others are. */
  onFailure(what: string, error: unknown): void;
}

/** Who has a turn: the raw limit, or a system. */
interface Contender {
  readonly name: string;
  measure(bench: Bench): Promise<readonly Measured[]>;
}

/**
 * Measures the raw limit, then each system, each with a folder and processes of its own. Every other turn goes the other way
 * round: what becomes slower or faster meanwhile, such as the machine, then does so for all of them.
 */
export async function measureScenario(scenario: Scenario, options: RunOptions): Promise<Figure[]> {
  const raw: Contender = { name: 'raw', measure: (bench) => scenario.raw(bench) };
  const systems = options.systems
    .filter(({ name }) => scenario.withoutPeer !== true || name !== 'opal')
    .map((system): Contender => ({ name: system.name, measure: (bench) => scenario.measure(bench, system) }));
  const contenders = [raw, ...systems];
  const found = new Map<string, Measured[]>(contenders.map(({ name }) => [name, []]));
  for (let turn = 0; turn < options.turns; turn++) {
    for (const { name, measure } of turn % 2 === 0 ? contenders : contenders.toReversed()) {
      const what = `${scenario.name}: ${name}`;
      options.onStart(what);
      try {
        found.get(name)?.push(...(await withBench(options, measure)));
      } catch (error) {
        options.onFailure(what, error);
      }
    }
  }
  return [...found].flatMap(([name, measured]) => pooled(measured).map((one) => figure(scenario.name, name, one)));
}

async function withBench<T>(
  { quick, opa, minutes, backbone }: RunOptions,
  use: (bench: Bench) => Promise<T>,
): Promise<T> {
  await using dir = await tempDir();
  await using parts = new Parts();
  return await use({
    quick,
    opa,
    minutes,
    backbone,
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
