import { join } from 'node:path';
import { SyncError } from '../../lib/errors.js';
import { Places } from '../../lib/net/places.js';
import type { Logger } from '../../lib/observe/log.js';
import type { Tracing } from '../../lib/observe/tracing.js';
import { assertNotOurs, childEnv } from '../../lib/run/child-env.js';
import type { Hub } from '../../pubsub/hub.js';
import type { OpalPolicyNotice } from '../../wire/bundle.js';
import type { DocPath } from '../../wire/doc-path.js';
import { opalPolicyTopic, policyTopic } from '../../wire/topics.js';
import type { TraceMemory } from '../changes/change-times.js';
import { deliver, type StageFeed } from '../changes/stages.js';
import type { LogPosition, PolicyLog } from '../log/update-log.js';
import type { ServerOptions } from '../options.js';
import { PolicyBundles } from './bundle/policy-bundles.js';
import { createCommitReview } from './bundle/review.js';
import { createSnapshots, moduleText, type Snapshots } from './bundle/snapshot.js';
import { createCompileCheck } from './gate/compile-check.js';
import { PolicyGate } from './gate/gate.js';
import { ALWAYS_FRESH, PolicyFreshness } from './policy-freshness.js';
import { PolicyTraces } from './policy-traces.js';
import { bundleLocation } from './source/bundle-api-config.js';
import { createBundleSource } from './source/bundle-api-source.js';
import { bundleVerification } from './source/bundle-signature.js';
import type { AskedCommit, CommitFacts } from './source/commit-facts.js';
import type { GitObjects } from './source/git-objects.js';
import { parseGitRemote } from './source/git-remote.js';
import { createGitSource } from './source/git-source.js';
import type { MirrorSource } from './source/mirror-source.js';
import { repositoryIdentity } from './source/repository-address.js';
import { LoggedPolicyHead } from './source/shared-policy-head.js';
import type { PolicyHeadChange, PolicySource } from './source/source.js';
import { Tracker } from './source/tracker.js';
import { PolicyViews } from './views/policy-views.js';

/** Retry-After of a server without a policy source. */
const NO_SOURCE_RETRY_SECONDS = 30;
/** Topics of a commit that are remembered. */
const TOPICS_KEPT = 20;
/** Commits whose files are kept for people who compare them. */
const SNAPSHOTS_VIEWED = 2;

/** The commits of a policy source that were served, and what the repository says of them. */
export interface PolicyCommits {
  /** The agreed commit and those before it, the newest first; at most 51, each once. */
  served(): readonly string[];
  /**
   * Facts by hash; those that the local copy does not have are missing. Rejects with `git_failed`.
   */
  about(asked: readonly AskedCommit[]): Promise<ReadonlyMap<string, CommitFacts>>;
}

/** The policy half of a server: follows the source, serves bundles, announces new heads. */
export interface Policy {
  /** Undefined if no policy source is configured. */
  readonly tracker: Tracker | undefined;
  readonly bundles: Pick<PolicyBundles, 'get'>;
  readonly freshness: Pick<PolicyFreshness, 'check'>;
  /** What people see of the source; undefined if none is configured. */
  readonly views: PolicyViews | undefined;
  /** The commits of this source. */
  readonly commits: PolicyCommits;
  /** The text of a module that bundles of a commit have; undefined if they have none there. */
  moduleText(commit: string, path: string): Promise<string | undefined>;
  /** The branch that the repository names as its default, if that is followed and known. */
  defaultBranch(): string | undefined;
  /** Where the served commit has data; undefined while that is not known. */
  dataPlaces(): Places | undefined;
  /**
   * Whether a commit that clients may have has data at, above or below a path; undefined while that
   * is not known.
   */
  hasData(path: DocPath): boolean | undefined;
  /** See {@link PolicyTraces.parentFor}; undefined without tracing. */
  readonly parentFor?: PolicyTraces['parentFor'] | undefined;
  /**
   * Follows the source until the signal aborts. Calls `onHead` when the served commit changes, with
   * the topics whose subscribers were notified. Rejects like {@link Tracker.run}.
   */
  run(deps: { onHead: (noticed: ReadonlySet<string>) => void }, signal: AbortSignal): Promise<void>;
}

export interface PolicyDeps {
  readonly hub: Pick<Hub, 'publish'>;
  readonly feed: StageFeed;
  /** Notes when each commit came how far. */
  readonly times?: TraceMemory['commits'] | undefined;
  readonly updateLog: LogPosition & PolicyLog;
  /** Whether other instances use the same update log. */
  readonly isShared: boolean;
  readonly log: Logger;
  readonly env: NodeJS.ProcessEnv;
  /** Wraps the source with metrics. */
  readonly measured?: ((source: PolicySource) => PolicySource) | undefined;
  readonly tracing?: Tracing | undefined;
}

/**
 * Creates the parts; they do nothing until `run`. Throws `config_invalid` for an unusable URL or
 * branch, and for inconsistent settings of a bundle server.
 */
export function createPolicy(options: ServerOptions, deps: PolicyDeps): Policy {
  const log = deps.log.child({ component: 'policy' });
  assertNotOurs(options.policyRepoEnv, 'SYNC_POLICY_REPO_ENV');
  // git and ssh get only the environment variables that they need.
  const source = createSource(options, { log, env: childEnv(deps.env, 'git', options.policyRepoEnv) });
  return source === undefined ? NO_POLICY : new FollowedPolicy(source, options, deps);
}

/** The policy of a source. */
class FollowedPolicy implements Policy {
  readonly tracker: Tracker;
  readonly bundles: Pick<PolicyBundles, 'get'>;
  readonly freshness: Pick<PolicyFreshness, 'check'>;
  readonly views: PolicyViews;
  readonly commits: PolicyCommits;
  readonly parentFor: Policy['parentFor'];
  readonly #source: MirrorSource;
  readonly #snapshots: Snapshots;
  readonly #gate: PolicyGate | undefined;
  readonly #traces: PolicyTraces | undefined;
  readonly #deps: PolicyDeps;

  constructor(source: MirrorSource, options: ServerOptions, deps: PolicyDeps) {
    const { updateLog, isShared, times, tracing } = deps;
    const log = deps.log.child({ component: 'policy' });
    this.#source = source;
    this.#deps = deps;
    const { objects } = source;
    const { policyExtensions, manifestPath, bundleIgnore: ignore } = options;
    const shape = { policyExtensions, manifestPath, ignore };
    const snapshots = createSnapshots(shape, { objects });
    this.#snapshots = snapshots;
    const name = sourceName(options);
    const agreed = new LoggedPolicyHead({ source: name, isSame: isSameSource(name), isShared }, { updateLog, log });
    const traces = tracing === undefined ? undefined : new PolicyTraces({ tracing, heads: agreed });
    this.#traces = traces;
    this.parentFor = traces?.parentFor.bind(traces);
    const heads = traces?.heads() ?? agreed;
    const measured = deps.measured?.(source) ?? source;
    this.#gate = createGate(options, { objects, snapshots, env: deps.env });
    const tracker = new Tracker(
      { pollingIntervalMs: options.policyRepoPollingIntervalMs },
      {
        source: traces?.source(measured) ?? measured,
        review: createCommitReview({ objects, snapshots, log }),
        ...{ gate: this.#gate, heads, times, log },
      },
    );
    this.tracker = tracker;
    const bundles = new PolicyBundles(
      { cacheBytes: options.bundleCacheBytes },
      { objects, snapshots, tracker, log: deps.log.child({ component: 'bundles' }) },
    );
    this.bundles = traces?.bundles(bundles) ?? bundles;
    this.freshness = isShared
      ? new PolicyFreshness({ tracker, heads, objects, source, isLogUp: () => updateLog.status.up })
      : ALWAYS_FRESH;
    // Snapshots of their own: looking at old commits must not drop those that clients need.
    const viewed = createSnapshots(shape, { objects: source.views.objects, keep: SNAPSHOTS_VIEWED });
    this.views = new PolicyViews(
      { ...placeOf(options), policyExtensions, manifestPath },
      { git: source.views, snapshots: viewed, tracker, heads: agreed, times },
    );
    this.commits = {
      served: () => {
        const { head } = agreed.look();
        return head === undefined ? [] : [head.hash, ...head.earlier];
      },
      about: (asked) => source.views.facts(asked),
    };
  }

  moduleText(commit: string, path: string): Promise<string | undefined> {
    return moduleText({ snapshots: this.#snapshots, objects: this.#source.objects }, commit, path);
  }

  defaultBranch(): string | undefined {
    return this.#source.defaultBranch;
  }

  dataPlaces(): Places | undefined {
    const head = this.tracker.head();
    return head === undefined ? undefined : this.#snapshots.dataPlaces(head);
  }

  hasData(path: DocPath): boolean | undefined {
    return this.dataPlaces() === undefined ? undefined : this.#snapshots.hasData(path);
  }

  async run({ onHead }: { onHead: (noticed: ReadonlySet<string>) => void }, signal: AbortSignal): Promise<void> {
    try {
      await this.tracker.run({ onServed: (change) => onHead(this.#announce(change)) }, signal);
    } finally {
      await this.#gate?.close();
    }
  }

  /** Publishes the notices of a new head. Returns their topics. */
  #announce(change: PolicyHeadChange): ReadonlySet<string> {
    const { hub, feed } = this.#deps;
    const { hash, changedDirectories } = change;
    const notices = changedDirectories.length === 0 ? [] : policyNotices(change);
    const notify = (): void => {
      for (const notice of notices) deliver(hub, notice, feed);
    };
    if (this.#traces === undefined) notify();
    else this.#traces.notify(change, notify);
    const topics = changedDirectories.slice(0, TOPICS_KEPT).map((directory) => policyTopic(directory));
    feed({ of: 'commit', id: hash, name: 'announced', atMs: Date.now(), about: { topics } });
    return new Set(notices.flatMap((notice) => notice.topics));
  }
}

/** How SYNC_ENGINE_V0_COMPAT reads modules. */
const REGO = { auto: 'auto', true: 'v0', false: 'v1' } as const;

/** What every commit passes before it is served; undefined with SYNC_POLICY_GATE=off. */
function createGate(
  { policyGate: mode, policyGateDirs, engineV0Compat }: ServerOptions,
  { objects, snapshots, env }: { objects: GitObjects; snapshots: Snapshots; env: NodeJS.ProcessEnv },
): PolicyGate | undefined {
  if (mode === 'off') return undefined;
  const sets = policyGateDirs.map((set) => set.split(':'));
  const compiles = createCompileCheck({ rego: REGO[engineV0Compat], sets }, { objects, env });
  return new PolicyGate({ mode, checks: [compiles] }, { snapshots });
}

/** Returns the name of the source in the update log, without secrets. */
function sourceName(options: ServerOptions): string {
  const { type, source, branch } = placeOf(options);
  return branch === undefined ? `${type} ${source}` : `${type} ${source} ${branch}`;
}

/** Where the source is, without secrets. */
function placeOf(options: ServerOptions): { type: 'GIT' | 'API'; source: string; branch: string | undefined } {
  if (options.policySourceType === 'API') {
    return { type: 'API', source: bundleLocation(options).display, branch: undefined };
  }
  const { display } = parseGitRemote(options.policyRepoUrl ?? '');
  return { type: 'GIT', source: display, branch: options.policyRepoBranch ?? 'HEAD' };
}

/**
 * Whether a name in the update log means the same source: another instance or an earlier run may
 * spell the address differently.
 */
function isSameSource(name: string): (other: string) => boolean {
  const identity = (text: string): string => {
    const [, address, branch] = /^GIT (.*) (\S+)$/s.exec(text) ?? [];
    return address === undefined ? text : `GIT ${repositoryIdentity(address)} ${branch}`;
  };
  const own = identity(name);
  return (other) => identity(other) === own;
}

/**
 * Creates the source of SYNC_POLICY_SOURCE_TYPE. Each type has its own default folder and never
 * takes over the other's.
 */
function createSource(
  options: ServerOptions,
  { log, env }: { log: Logger; env: NodeJS.ProcessEnv },
): MirrorSource | undefined {
  const fetchTimeoutMs = options.policyRepoCloneTimeoutMs;
  const isOwnFolder = options.policyRepoClonePath === undefined;
  if (options.policySourceType === 'API') {
    return createBundleSource(
      {
        location: bundleLocation(options),
        repoPath: options.policyRepoClonePath ?? join(options.stateDir, 'policy-bundle'),
        isOwnFolder,
        limitBytes: options.policyBundleLimitBytes,
        unpackedBytes: options.policyBundleLimitUnpackedBytes,
        entries: options.policyBundleLimitEntries,
        verification: bundleVerification(options),
        fetchTimeoutMs,
        env,
      },
      { log },
    );
  }
  if (options.policyRepoUrl === undefined) return undefined;
  return createGitSource(
    {
      url: options.policyRepoUrl,
      branch: options.policyRepoBranch,
      clonePath: options.policyRepoClonePath ?? join(options.stateDir, 'policy-repo'),
      isOwnFolder,
      sshKey: options.policyRepoSshKey,
      fetchTimeoutMs,
      silenceTimeoutMs: options.policyRepoSilenceTimeoutMs,
      env,
    },
    { log },
  );
}

const NO_PLACES = new Places();

/** A server without a policy source responds as OPAL does (opal-protocol P2.2). */
const NO_POLICY: Policy = {
  tracker: undefined,
  views: undefined,
  bundles: {
    get: async () => {
      throw new SyncError('policy_source_none', 'SYNC_POLICY_REPO_URL is not set: this server serves no policy', {
        detail: 'policy repo was not found',
        retryAfterSeconds: NO_SOURCE_RETRY_SECONDS,
        retryable: true,
      });
    },
  },
  freshness: ALWAYS_FRESH,
  commits: { served: () => [], about: async () => new Map() },
  moduleText: async () => undefined,
  defaultBranch: () => undefined,
  dataPlaces: () => NO_PLACES,
  hasData: () => false,
  run: async () => undefined,
};

/** One publication: the same data on several topics. */
export interface PolicyNotice {
  topics: string[];
  /** The data, as JSON text. */
  text: string;
}

/**
 * The announcement of a new head: the commit hash on our topic of each changed directory
 * (`default:policy:a/b`), and OPAL's object on OPAL's topics (`policy:a/b`; opal-protocol P1.7). A
 * client subscribes to one of the two.
 */
export function policyNotices(change: PolicyHeadChange): PolicyNotice[] {
  const directories = change.changedDirectories;
  const opal: OpalPolicyNotice = {
    old_policy_hash: change.oldHash,
    new_policy_hash: change.hash,
    changed_directories: [...directories],
  };
  return [
    { topics: directories.map((directory) => policyTopic(directory)), text: JSON.stringify(change.hash) },
    { topics: directories.map((directory) => opalPolicyTopic(directory)), text: JSON.stringify(opal) },
  ];
}
