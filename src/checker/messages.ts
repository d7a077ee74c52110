import type { RegoMode } from '../client/engine/modules/rego-versions.js';
import type { CommitProblem } from '../wire/commit-problem.js';

/** A file of a policy with its text. */
export interface TextFile {
  readonly path: string;
  readonly text: string;
}

/**
 * A module of a policy. `declared`: the version of Rego that the manifest of its bundle declares.
 */
export interface Module extends TextFile {
  readonly declared?: number;
}

/** What is compiled: the files of a commit, in load order. */
export interface CheckJob {
  readonly rego: RegoMode;
  readonly modules: readonly Module[];
  readonly data: readonly TextFile[];
  /** The folders that clients take, each set by itself; `.` is the whole repository. */
  readonly sets: readonly (readonly string[])[];
}

/** What the process is asked, one after the other. */
export interface ToChecker {
  readonly job: CheckJob;
  /** The process may take so much for it. */
  readonly memoryLimitBytes: number;
}

/** What OPA finds, or why it cannot say. */
export type CheckAnswer =
  | { readonly kind: 'judged'; readonly problems: readonly CommitProblem[] }
  | { readonly kind: 'failed'; readonly reason: string };

/** What the process answers. */
export type FromChecker = CheckAnswer & {
  /** What it takes then. */
  readonly memoryBytes: number;
};
