/** The states of a server instance, as a table of pure rules. */

/** What the state of an instance follows from. */
export interface InstanceFacts {
  /** Time since it last said something, in milliseconds; 0 for the one that responds. */
  readonly ageMs: number;
  readonly isDraining: boolean;
  /** Whether it reaches the backbone. */
  readonly isUp: boolean;
  /** Whether the log takes updates; undefined: it does not say. */
  readonly isWritable?: boolean | undefined;
  /** Rows of the log that it should have seen by now, and has not. */
  readonly behind: number;
  /** Round trip to the backbone; null: there is none, or it is not known. */
  readonly backboneMs: number | null;
}

/** An instance announces itself at least every four seconds. */
export const SILENT_AFTER_MS = 7000;
/** A row of this age has reached every instance, and each had the time to say so. */
export const SETTLED_AFTER_MS = 5000;
/** From here on a publish takes noticeably longer than the disk flush it waits for anyway. */
export const SLOW_BACKBONE_MS = 50;

/** The first rule that holds decides. */
const RULES: readonly (readonly [state: string, holds: (facts: InstanceFacts) => boolean])[] = [
  ['silent', ({ ageMs }) => ageMs > SILENT_AFTER_MS],
  ['draining', ({ isDraining }) => isDraining],
  ['backbone_away', ({ isUp }) => !isUp],
  ['refuses_updates', ({ isWritable }) => isWritable === false],
  ['behind', ({ behind }) => behind > 0],
  ['slow_backbone', ({ backboneMs }) => backboneMs !== null && backboneMs > SLOW_BACKBONE_MS],
  ['in_step', () => true],
];

/** silent, draining, backbone_away, refuses_updates, behind, slow_backbone or in_step. */
export function instanceState(facts: InstanceFacts): string {
  return RULES.find(([, holds]) => holds(facts))?.[0] ?? 'in_step';
}
