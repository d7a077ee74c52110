import type { Logger } from './log.js';

/** One fact that a program logs when it starts. */
export interface StartFact {
  /** What it is about: `server`, `authentication`. */
  readonly about: string;
  /** The fact, for people; addresses go through `redactUrl` first. */
  readonly text: string;
  /** The same for programs that read the log. */
  readonly fields?: Readonly<Record<string, unknown>>;
}

/**
 * Writes the facts of a start, one line each, in the same form for both programs:
 * `<about>: <text>`, with the fields beside it. Advice for the operator is no fact: it has its own
 * line of level `warn`.
 */
export function logStart(log: Pick<Logger, 'info'>, facts: readonly StartFact[]): void {
  for (const { about, text, fields } of facts) log.info({ ...fields }, `${about}: ${text}`);
}
