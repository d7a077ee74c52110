import { SyncError } from '../../../lib/errors.js';
import { type CommitProblem, problemsText } from '../../../wire/commit-problem.js';

/** A place in a commit. */
export interface CommitPlace {
  readonly file: string;
  /** 1 for the first; undefined: the whole file. */
  readonly line?: number | undefined;
}

/**
 * A commit that the server does not serve. The place travels beside the reason: nobody reads it out
 * of the sentence, where a folder may have any name.
 */
export class CommitRefused extends SyncError {
  /** Undefined: it is known of no file. */
  readonly place: CommitPlace | undefined;
  /** What is wrong there, as the end of a sentence that begins with the place. */
  readonly reason: string;
  /** That, and what else is wrong. */
  readonly problems: readonly CommitProblem[];

  constructor(
    hash: string,
    place: CommitPlace | undefined,
    reason: string,
    cause?: unknown,
    more: readonly CommitProblem[] = [],
  ) {
    const problems = [{ message: reason, ...place }, ...more];
    super('policy_commit_refused', `commit ${hash}: ${problemsText(problems)}`, { cause });
    this.place = place;
    this.reason = reason;
    this.problems = problems;
  }
}

/** A commit of which a check of the gate says at least one thing. */
export function refusedByGate(hash: string, [first, ...more]: readonly CommitProblem[]): CommitRefused {
  const { message = 'is refused', file, line } = first ?? {};
  return new CommitRefused(hash, file === undefined ? undefined : { file, line }, message, undefined, more);
}
