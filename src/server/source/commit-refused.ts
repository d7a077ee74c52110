import { SyncError } from '../../lib/errors.js';

/** A place in a commit. */
export interface CommitPlace {
  readonly file: string;
  /** 1 for the first; undefined: the whole file. */
  readonly line?: number | undefined;
}

/**
 * A commit that the server does not serve. The place travels beside the reason: nobody reads it out of the sentence, where a folder may
 * have any name.
 */
export class CommitRefused extends SyncError {
  readonly place: CommitPlace;
  /** What is wrong there, as the end of a sentence that begins with the place. */
  readonly reason: string;

  constructor(hash: string, place: CommitPlace, reason: string, cause?: unknown) {
    const at = place.line === undefined ? place.file : `${place.file}:${place.line}`;
    super('policy_commit_refused', `commit ${hash}: ${at} ${reason}`, { cause });
    this.place = place;
    this.reason = reason;
  }
}
