import type { ErrorCode, SyncError } from '../../../lib/errors.js';
import type { SourceView } from '../../../wire/clients.js';
import type { CommitProblem } from '../../../wire/commit-problem.js';
import type { Awaited } from './awaited-commit.js';

/** The state of the policy source. */
export interface PolicySourceStatus {
  /**
   * `starting` until the first head; `following`; `failing`: the last refresh failed, and the last
   * good head is served.
   */
  state: 'starting' | 'following' | 'failing';
  /** Progress of the first fetch; undefined if unknown, and afterwards. */
  fetching: string | undefined;
  /** When the fetch began that has not ended, in milliseconds since 1970; undefined: none runs. */
  fetchingSinceMs?: number | undefined;
  head: string | undefined;
  /**
   * The commit that the server instances agreed on; differs from `head` while this instance does
   * not have it.
   */
  wanted: string | undefined;
  /** A commit of the source that may be older: it is served if the source keeps showing it. */
  doubted: string | undefined;
  /** A commit that a webhook named and that no look has shown since. */
  awaited?: Awaited | undefined;
  /** A commit of the source that the gate is checking. */
  checking?: string | undefined;
  /** The commit of the source, if it is refused. */
  refused: string | undefined;
  /** What is wrong with that commit, each with its place; empty if none is refused. */
  problems?: readonly CommitProblem[] | undefined;
  /** Times of the last refresh, and of the last successful one, in milliseconds since 1970. */
  lastAttemptMs: number | undefined;
  lastSuccessMs: number | undefined;
  /** The last failure, as readable text; undefined after a success. */
  error: string | undefined;
  /** The code of that failure. */
  code: ErrorCode | undefined;
  /**
   * What the last refresh brought: another commit to serve, the same, or an error. Undefined: it
   * has not ended.
   */
  lastResult?: 'new' | 'same' | 'failed' | undefined;
  /**
   * Time of the first failure since the last success, in milliseconds since 1970; undefined after a
   * success.
   */
  failingSinceMs: number | undefined;
  /**
   * Warnings about the served commit: skipped lines of manifests, data files that another one
   * replaces.
   */
  warnings: readonly string[];
}

/** The result of a review of a commit that can be served. */
export interface Reviewed {
  /**
   * The directories with a relevant change since the previous commit, with all ancestors. Sorted.
   */
  changedDirectories: readonly string[];
  /** See {@link PolicySourceStatus.warnings}. */
  warnings: readonly string[];
}

/**
 * A new head that passed all checks and is now served. `oldHash` equals `hash` for the first one.
 */
export interface PolicyHeadChange {
  oldHash: string;
  hash: string;
  /**
   * Every directory that has or had an affected file, with all its ancestors; `.` is the root.
   * Sorted.
   */
  changedDirectories: readonly string[];
}

/**
 * A source of policy commits: a git repository, or archives on an HTTP or S3 server, imported into
 * a local repository.
 */
export interface PolicySource {
  /**
   * Opens the local copy, repairs it after a crash, and returns the head that was served last, if
   * any. Rejects with `config_invalid` if the folder holds something else, or `git_failed`.
   */
  open(signal: AbortSignal): Promise<string | undefined>;
  /**
   * Updates the local copy and returns its head. Rejects with `git_failed`, `git_timeout`,
   * `git_silent`, `git_branch_missing`, `bundle_server_failed` or `bundle_archive_refused`.
   */
  fetch(signal: AbortSignal): Promise<string>;
  /** Progress of a full fetch, as readable text; undefined while there is none. */
  readonly progress?: string | undefined;
  /** Whether the local copy has this commit. Rejects with `git_failed`. */
  has(hash: string): Promise<boolean>;
  /**
   * Whether a commit is certainly later than a former head `of`; `earlier`: the heads before `of`.
   * Neither needs to be in the local copy. Rejects with `git_failed`.
   */
  isSuccessor(hash: string, of: string, earlier: readonly string[]): Promise<boolean>;
  /** Stores a head as the one to serve after a restart. */
  markServed(hash: string): Promise<void>;
  /** Marks the local copy as damaged: the next fetch rebuilds it. */
  distrust(): void;
}

/** Checks a commit before it is served. */
export interface CommitReview {
  /**
   * Returns the changes since `previous`; without one, every directory counts as changed. Rejects
   * with `policy_commit_refused` if a file cannot be served.
   */
  review(hash: string, previous: string | undefined): Promise<Reviewed>;
}

/** A fetch that takes longer is shown; most take less, and come at each interval of polling. */
const SLOW_FETCH_MS = 3000;
/** What the gate says of a commit. */
export interface GateAnswer {
  /**
   * `serve_noted`: serve it, and say what was found. `refuse`: the former head stays until there is
   * another commit. `wait`: the former head stays, and the commit is checked again later.
   */
  readonly step: 'serve' | 'serve_noted' | 'refuse' | 'wait';
  readonly problems: readonly CommitProblem[];
  /** Why the checks did not end. */
  readonly error: SyncError | undefined;
}

/** Decides whether a commit that can be served should be. */
export interface CommitGate {
  /** Two gates with the same text find the same. */
  readonly judge: string;
  /**
   * What to do with a commit. `told`: what such a gate found in it before, in another instance or
   * an earlier run. Rejects with `git_failed`, and with the reason of the signal.
   */
  decide(hash: string, told: readonly CommitProblem[] | undefined, signal: AbortSignal): Promise<GateAnswer>;
  /** A commit is expected soon, or is there. */
  expect(): void;
}

/** The policy source as responses show it; `none` if none is configured. */
export function viewOfSource(status: PolicySourceStatus | undefined, nowMs = Date.now()): SourceView {
  if (status === undefined) return { state: 'none' };
  const { state, fetching, fetchingSinceMs, head, wanted, doubted, checking, awaited, refused } = status;
  const { problems = [], error, code, failingSinceMs, warnings } = status;
  const isSlow = fetchingSinceMs !== undefined && nowMs - fetchingSinceMs >= SLOW_FETCH_MS;
  return {
    state,
    ...(fetching !== undefined && { fetching }),
    ...(isSlow && { fetching_since: new Date(fetchingSinceMs).toISOString() }),
    head: head ?? null,
    ...(wanted !== undefined && wanted !== head && { wanted }),
    ...(doubted !== undefined && { doubted }),
    ...(awaited !== undefined && { awaited: viewOfAwaited(awaited) }),
    ...(checking !== undefined && { checking }),
    ...(refused !== undefined && { refused }),
    ...(problems.length > 0 && { problems: [...problems] }),
    error: error ?? null,
    ...(code !== undefined && { code }),
    ...(failingSinceMs !== undefined && { failing_since: new Date(failingSinceMs).toISOString() }),
    ...(warnings.length > 0 && { warnings: [...warnings] }),
  };
}

/**
 * The same for callers that are not told why something fails, as responses leave it out by
 * themselves.
 */
export async function sourceForLimited(view: SourceView): Promise<SourceView> {
  const [{ sourceView }, { insiderCut }] = await Promise.all([
    import('../../../wire/clients.js'),
    import('../../../wire/insider.js'),
  ]);
  return sourceView.parse(insiderCut(sourceView)?.(view));
}

function viewOfAwaited({ hash, sinceMs, givenUpMs }: Awaited): NonNullable<SourceView['awaited']> {
  return {
    commit: hash,
    since: new Date(sinceMs).toISOString(),
    ...(givenUpMs !== undefined && { given_up: new Date(givenUpMs).toISOString() }),
  };
}
