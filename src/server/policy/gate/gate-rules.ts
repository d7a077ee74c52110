import type { GateAnswer } from '../source/source.js';

/**
 * SYNC_POLICY_GATE: what becomes of a commit that the gate finds bad. With `off` there is no gate.
 */
export const GATE_MODES = ['on', 'warn', 'off'] as const;
export type GateMode = Exclude<(typeof GATE_MODES)[number], 'off'>;

/**
 * What the checks say of a candidate: a commit that the source shows and that is not served yet.
 * `unsure`: they did not end. A verdict of another instance, or of an earlier run, counts like one
 * of this gate.
 */
export type Verdict = 'good' | 'bad' | 'unsure';

/** The rules for a candidate; {@link GateAnswer} has what the steps mean. */
const STEPS: Readonly<Record<GateMode, Readonly<Record<Verdict, GateAnswer['step']>>>> = {
  on: { good: 'serve', bad: 'refuse', unsure: 'wait' },
  warn: { good: 'serve', bad: 'serve_noted', unsure: 'serve_noted' },
};

/**
 * What to do with a candidate. Only what is known of it decides: not who found it, and no commit
 * before it. Pure.
 */
export function candidateStep(mode: GateMode, verdict: Verdict): GateAnswer['step'] {
  return STEPS[mode][verdict];
}
