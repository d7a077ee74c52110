import type { ErrorCode } from '../../lib/errors.js';
import type { SourceView } from '../../wire/clients.js';

/** What the server knows of its policy source at one moment. */
export interface PolicySourceStatus {
  /** `starting` until the first head; `following`; `failing`: the last look failed, the last good head serves. */
  state: 'starting' | 'following' | 'failing';
  /** How far the first fetch is; undefined where that is not known, and later. */
  fetching: string | undefined;
  head: string | undefined;
  /** The commit that the server instances agreed on; another one than `head` while this instance cannot get it. */
  wanted: string | undefined;
  /** A commit that the source shows and that may be older: it is served if the source keeps showing it. */
  doubted: string | undefined;
  /** The commit that the source shows, where it is refused. */
  refused: string | undefined;
  /** Milliseconds since 1970 of the last look, and of the last one that succeeded. */
  lastAttemptMs: number | undefined;
  lastSuccessMs: number | undefined;
  /** The last failure, for people; undefined after a success. */
  error: string | undefined;
  /** The code of that failure. */
  code: ErrorCode | undefined;
  /** When the first failure since the last success was, in milliseconds since 1970; undefined after a success. */
  failingSinceMs: number | undefined;
  /** What people should know of the served commit: lines of manifests that do not count, data files that another one replaces. */
  warnings: readonly string[];
}

/** What a review found in a commit that can be served. */
export interface Reviewed {
  /** The directories with a relevant change since the commit before, with all ancestors. Sorted. */
  changedDirectories: readonly string[];
  /** For people: see {@link PolicySourceStatus.warnings}. */
  warnings: readonly string[];
}

/** A new head that passed all checks and is now served. `oldHash` equals `hash` for the first one. */
export interface PolicyHeadChange {
  oldHash: string;
  hash: string;
  /** Every directory that has or had an affected file, with all its ancestors; `.` is the root. Sorted. */
  changedDirectories: readonly string[];
}

/** Where policy commits come from. Git is one, archives from an HTTP or S3 server end in a local repository as well. */
export interface PolicySource {
  /**
   * Opens the local copy, repairing what a crash left, and returns the head that was served last, if there is one.
   * Throws `config_invalid` when the place is taken by something else, `git_failed`.
   */
  open(signal: AbortSignal): Promise<string | undefined>;
  /**
   * Brings the local copy up to date and returns its head. Throws `git_failed`, `git_timeout`, `git_branch_missing`, or
   * `bundle_server_failed`, `bundle_archive_refused`.
   */
  fetch(signal: AbortSignal): Promise<string>;
  /** How far a fetch is that brings everything, for people; undefined while there is none. */
  readonly progress?: string | undefined;
  /** True when the local copy has this commit. Throws `git_failed`. */
  has(hash: string): Promise<boolean>;
  /**
   * True when it is certain that a commit came after another one, which had been the head; `earlier` are the heads before that
   * one. Both need not be in the local copy. Throws `git_failed`.
   */
  isSuccessor(hash: string, of: string, earlier: readonly string[]): Promise<boolean>;
  /** Remembers a head as the one to serve after a restart. */
  markServed(hash: string): Promise<void>;
  /** The local copy cannot be read: the next fetch rebuilds it. */
  distrust(): void;
}

/** Checks a commit before it is served. */
export interface CommitReview {
  /**
   * Throws `policy_commit_refused` when a file cannot be served. The changes are those since `previous`; every directory where
   * there is no previous commit.
   */
  review(hash: string, previous: string | undefined): Promise<Reviewed>;
}

/** The policy source as responses show it; `none` if none is configured. */
export function viewOfSource(status: PolicySourceStatus | undefined): SourceView {
  if (status === undefined) return { state: 'none' };
  const { state, fetching, head, wanted, doubted, refused, error, code, failingSinceMs, warnings } = status;
  return {
    state,
    ...(fetching !== undefined && { fetching }),
    head: head ?? null,
    ...(wanted !== undefined && wanted !== head && { wanted }),
    ...(doubted !== undefined && { doubted }),
    ...(refused !== undefined && { refused }),
    error: error ?? null,
    ...(code !== undefined && { code }),
    ...(failingSinceMs !== undefined && { failing_since: new Date(failingSinceMs).toISOString() }),
    ...(warnings.length > 0 && { warnings: [...warnings] }),
  };
}
