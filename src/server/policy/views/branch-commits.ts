import { SyncError } from '../../../lib/errors.js';
import type { PolicyCommit } from '../../../wire/fleet-views.js';
import { refusalView, type TraceMemory } from '../../changes/change-times.js';
import type { BranchCommit } from '../source/commit-log.js';
import type { GitViews } from '../source/git-views.js';
import type { SharedPolicyHead } from '../source/shared-policy-head.js';
import type { Tracker } from '../source/tracker.js';

export interface BranchDeps {
  readonly git: GitViews;
  readonly tracker: Pick<Tracker, 'head' | 'status'>;
  readonly heads: Pick<SharedPolicyHead, 'look'>;
  readonly times: Pick<TraceMemory['commits'], 'get'> | undefined;
}

const COMMITS_SHOWN = 50;
/** Shortest part of a commit that names it. */
const SHORTEST_HASH = 7;
const FULL_HASH = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

/** The commits of the branch that is followed, as people see and name them. */
export class BranchCommits {
  /** Archives are commits of our own, one after the other. */
  readonly #isArchive: boolean;
  readonly #deps: BranchDeps;
  #read: { readonly key: string; readonly commits: Promise<readonly BranchCommit[]> } | undefined;

  constructor({ type }: { readonly type: 'GIT' | 'API' }, deps: BranchDeps) {
    this.#isArchive = type === 'API';
    this.#deps = deps;
  }

  /** The last commits of the branch, newest first; none before the first fetch. */
  async list(): Promise<PolicyCommit[]> {
    const { git, tracker } = this.#deps;
    // Before the first fetch there is no repository to read.
    if (tracker.head() === undefined && tracker.status().refused === undefined) return [];
    const tip = await git.tip();
    const all = await this.#commits(tip);
    const firstServed = all.findLastIndex((commit) => this.#wasServed(commit));
    return all.map((commit, index) => {
      return this.#shown(commit, { isNewest: commit.hash === tip, isOlder: index > firstServed });
    });
  }

  /**
   * The full hash of a commit of the branch; undefined: the served one. Rejects with
   * `policy_commit_unknown`, `request_invalid` if several begin with `text`, and
   * `policy_not_ready`.
   */
  async hashOf(text: string | undefined): Promise<string> {
    const { git, tracker } = this.#deps;
    const head = tracker.head();
    if (text === undefined) {
      if (head === undefined) throw notReady();
      return head;
    }
    const asked = text.toLowerCase();
    if (asked.length < SHORTEST_HASH) throw unknown(text);
    const tip = await git.tip();
    const commits = await this.#commits(tip);
    const known = new Set([...commits.map(({ hash }) => hash), ...this.#earlier()]);
    const [first, second] = [...known].filter((hash) => hash.startsWith(asked));
    if (second !== undefined) {
      throw new SyncError('request_invalid', `several commits begin with ${asked}: give more of its digits`);
    }
    if (first !== undefined && (await git.objects.hasCommit(first))) return first;
    if (!FULL_HASH.test(asked)) throw unknown(text);
    for (const end of [tip, head]) {
      if (end !== undefined && (await git.objects.isAncestor(asked, end))) return asked;
    }
    throw unknown(text);
  }

  /** The commit to compare with by default: the parent; of an archive the one served before it. */
  async before(to: string): Promise<string | null> {
    const { git, heads, tracker } = this.#deps;
    const parent = await git.parent(to);
    if (parent !== undefined) return parent;
    if (!this.#isArchive) return null;
    const all = [...new Set([heads.look().head?.hash, tracker.head(), ...this.#earlier()])];
    for (const hash of all.slice(all.indexOf(to) + 1)) {
      if (hash !== undefined && hash !== to && (await git.objects.hasCommit(hash))) return hash;
    }
    return null;
  }

  #earlier(): readonly string[] {
    return this.#deps.heads.look().head?.earlier ?? [];
  }

  /** Read again only when the branch has moved. */
  async #commits(tip: string | undefined): Promise<readonly BranchCommit[]> {
    const { tracker } = this.#deps;
    // A force-push may have taken these from the branch. An archive has no history: the log knows
    // those that were served before.
    const earlier = this.#isArchive ? this.#earlier() : [];
    const others = [tracker.status().refused, tracker.head(), ...earlier];
    const key = JSON.stringify([tip, ...others]);
    if (this.#read?.key === key) return await this.#read.commits;
    const commits = this.#readCommits(tip, others);
    this.#read = { key, commits };
    commits.catch(() => {
      this.#read = undefined; // the next caller reads again
    });
    return await commits;
  }

  async #readCommits(
    tip: string | undefined,
    others: readonly (string | undefined)[],
  ): Promise<readonly BranchCommit[]> {
    const { git } = this.#deps;
    const all = tip === undefined ? [] : await git.history(tip, COMMITS_SHOWN);
    const missing = others.filter((hash) => hash !== undefined && all.every((commit) => commit.hash !== hash));
    for (const commit of await git.commits([...new Set(missing)].filter((hash) => hash !== undefined))) {
      const place = all.findIndex(({ atMs }) => atMs < commit.atMs);
      all.splice(place < 0 ? all.length : place, 0, commit);
    }
    return all;
  }

  #wasServed({ hash }: BranchCommit): boolean {
    const { tracker, times } = this.#deps;
    const isKnown = hash === tracker.head() || this.#earlier().includes(hash);
    return isKnown || times?.get(hash)?.stages.served !== undefined;
  }

  #shown(commit: BranchCommit, place: { isNewest: boolean; isOlder: boolean }): PolicyCommit {
    const { hash, author, atMs, title } = commit;
    const { tracker, times } = this.#deps;
    const memory = times?.get(hash);
    const { refused, code, error } = tracker.status();
    const isRefusedNow = refused === hash;
    const now = isRefusedNow && error !== undefined ? { message: error, ...(code !== undefined && { code }) } : null;
    const before = memory?.error === undefined ? null : refusalView(memory.error);
    const state = commitState({
      isHead: hash === tracker.head(),
      isRefused: isRefusedNow || before !== null,
      wasServed: this.#wasServed(commit),
      ...place,
    });
    const about = this.#isArchive
      ? { title: 'Bundle archive', author: '', at: memory?.stages.found ?? memory?.stages.served ?? 0 }
      : { title, author, at: atMs };
    return { hash, ...about, state, error: state === 'refused' ? (before ?? now) : null };
  }
}

/** What is known of a commit of the branch. */
interface CommitKnown {
  readonly isHead: boolean;
  readonly isRefused: boolean;
  /** It was the head of the server instances. */
  readonly wasServed: boolean;
  /** It is the end of the branch. */
  readonly isNewest: boolean;
  /** Nothing before it is known to have been served: the memory of the server begins later. */
  readonly isOlder: boolean;
}

/** The first rule that holds decides. */
const RULES: readonly (readonly [state: string, holds: (known: CommitKnown) => boolean])[] = [
  ['head', ({ isHead }) => isHead],
  ['refused', ({ isRefused }) => isRefused],
  ['served', ({ wasServed }) => wasServed],
  ['found', ({ isNewest }) => isNewest],
  ['older', ({ isOlder }) => isOlder],
  ['replaced', () => true],
];

/**
 * head, refused, served, found (not served yet), older (than the first that is known to have been
 * served), or replaced: a later commit came with it, and it was never served.
 */
export function commitState(known: CommitKnown): string {
  return RULES.find(([, holds]) => holds(known))?.[0] ?? 'replaced';
}

function notReady(): SyncError {
  const text = 'no policy commit is served yet';
  return new SyncError('policy_not_ready', text, { retryable: true, retryAfterSeconds: 1 });
}

function unknown(text: string): SyncError {
  const shown = JSON.stringify(text.slice(0, 100));
  return new SyncError(
    'policy_commit_unknown',
    `commit ${shown} is not in the history of the branch as this server has it`,
  );
}
