import type { BackboneKind } from '../../test/support/backbone-servers.js';
import type { Measured } from './figure.js';
import type { Statistic } from './statistics.js';
import type { System } from './system.js';

/** What a scenario works with. */
export interface Bench {
  /** Short runs, for trying and for the check. */
  readonly quick: boolean;
  /** The OPA executable. */
  readonly opa: string;
  /** How long a scenario goes on that can do so for any time. Undefined: as it likes. */
  readonly minutes: number | undefined;
  /** Where the log is, in a scenario that can do with each. Undefined: on the disk of its server. */
  readonly backbone: BackboneKind | undefined;
  /** An empty folder, removed when the system was measured. */
  readonly dir: string;
  /** Takes a part that ends, last one first, when the system was measured. */
  keep<P extends AsyncDisposable>(part: P): P;
  /** One of two values: of a normal and of a quick run. */
  pick<T>(normal: T, quick: T): T;
}

/** What a figure of our own system is held against. */
export interface Goal {
  /** The engine of the systems that it is a goal of. Default: any. */
  readonly for?: 'inline' | 'embedded';
  readonly metric: string;
  readonly statistic: Statistic;
  /**
   * The other figure: of the raw limit, of OPAL, of our system with an inline engine, of our system itself (another metric), or a
   * number in the unit of the metric.
   * `metric` and `statistic` of the other figure are the same unless said otherwise.
   */
  readonly of:
    | {
        readonly system: 'raw' | 'opal' | 'policysync' | 'self';
        readonly metric?: string;
        readonly statistic?: Statistic;
      }
    | 'number';
  /** The figure is at most, or at least, so many times the other one. */
  readonly atMost?: number;
  readonly atLeast?: number;
  /** Is added to the other figure before: so much more is granted. */
  readonly plus?: number;
  /** In place of `atMost` or `atLeast` in `npm run bench:check`: generous. Without it the check passes over this goal. */
  readonly check?: number;
}

/** One thing that is measured, in the same way for each system. */
export interface Scenario {
  readonly name: string;
  /** One sentence for the report. */
  readonly about: string;
  /** What the raw limit is; one sentence. */
  readonly rawIs: string;
  readonly goals: readonly Goal[];
  /** No goal is held against OPAL, and it would take long: it is left out. */
  readonly withoutPeer?: true;
  /** The raw limit. */
  raw(bench: Bench): Promise<readonly Measured[]>;
  /** A system. */
  measure(bench: Bench, system: System): Promise<readonly Measured[]>;
}
