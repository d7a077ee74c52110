import { join } from 'node:path';
import { assertNotOurs, childEnv } from '../lib/child-env.js';
import { SyncError } from '../lib/errors.js';
import type { Logger } from '../lib/log.js';
import { Places } from '../lib/places.js';
import type { Tracing } from '../lib/tracing.js';
import type { OpalPolicyNotice } from '../wire/bundle.js';
import { opalPolicyTopic, policyTopic } from '../wire/topics.js';
import { createModuleText, type ModuleText } from './bundle/module-text.js';
import { PolicyBundles } from './bundle/policy-bundles.js';
import { createCommitReview } from './bundle/review.js';
import { createSnapshots, type Snapshots } from './bundle/snapshot.js';
import { createCompileCheck } from './gate/compile-check.js';
import { PolicyGate } from './gate/gate.js';
import type { UpdateLog } from './log/update-log.js';
import type { ServerOptions } from './options.js';
import { ALWAYS_FRESH, PolicyFreshness } from './policy-freshness.js';
import { PolicyTraces } from './policy-traces.js';
import { createPolicyViews, type PolicyViews } from './policy-views/policy-views.js';
import type { Delivery } from './publish.js';
import { createSharedPolicyHead } from './shared-policy-head.js';
import { bundleLocation } from './source/bundle-api-config.js';
import { createBundleSource } from './source/bundle-api-source.js';
import { bundleVerification } from './source/bundle-signature.js';
import type { AskedCommit, CommitFacts } from './source/commit-facts.js';
import type { GitObjects } from './source/git-objects.js';
import { parseGitRemote } from './source/git-remote.js';
import { createGitSource } from './source/git-source.js';
import type { MirrorSource } from './source/mirror-source.js';
import { repositoryIdentity } from './source/repository-address.js';
import type { PolicyHeadChange, PolicySource } from './source/source.js';
import { Tracker } from './source/tracker.js';
import type { TraceMemory } from './trace/change-times.js';

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
  /** Facts by hash; those that the local copy does not have are missing. Rejects with `git_failed`. */
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
  readonly moduleText: ModuleText;
  /** The branch that the repository names as its default, if that is followed and known. */
  defaultBranch(): string | undefined;
  /** Where the served commit has data; undefined while that is not known. */
  dataPlaces(): Places | undefined;
  /** See {@link PolicyTraces.parentFor}; undefined without tracing. */
  readonly parentFor?: PolicyTraces['parentFor'] | undefined;
  /**
   * Follows the source until the signal aborts. Calls `onHead` when the served commit changes, with the topics whose subscribers
   * were notified. Rejects like {@link Tracker.run}.
   */
  run(deps: { onHead: (noticed: ReadonlySet<string>) => void }, signal: AbortSignal): Promise<void>;
}

/**
 * Creates the parts; they do nothing until `run`. Throws `config_invalid` for an unusable URL or branch, and for inconsistent
 * settings of a bundle server.
 */
export function createPolicy(
  options: ServerOptions,
  deps: {
    hub: Delivery;
    updateLog: Pick<UpdateLog, 'policy' | 'appendPolicy' | 'onPolicy' | 'status'>;
    /** Whether other instances use the same update log. */
    isShared: boolean;
    log: Logger;
    env: NodeJS.ProcessEnv;
    /** Wraps the source with metrics. */
    measured?: ((source: PolicySource) => PolicySource) | undefined;
    tracing?: Tracing | undefined;
    /** Notes when each commit came how far. */
    times?: TraceMemory['commits'] | undefined;
  },
): Policy {
  const log = deps.log.child({ component: 'policy' });
  assertNotOurs(options.policyRepoEnv, 'SYNC_POLICY_REPO_ENV');
  // git and ssh get only the environment variables that they need.
  const source = createSource(options, { log, env: childEnv(deps.env, 'git', options.policyRepoEnv) });
  if (source === undefined) return NO_POLICY;
  const { objects } = source;
  const { policyExtensions, manifestPath, bundleIgnore: ignore } = options;
  const snapshots = createSnapshots({ policyExtensions, manifestPath, ignore }, { objects });
  const { updateLog, isShared } = deps;
  const agreed = createSharedPolicyHead(
    { source: sourceName(options), isSame: isSameSource(sourceName(options)), isShared },
    { updateLog, log },
  );
  const { tracing } = deps;
  const traces = tracing === undefined ? undefined : new PolicyTraces({ tracing, heads: agreed });
  const heads = traces?.heads() ?? agreed;
  const measured = deps.measured?.(source) ?? source;
  const gate = createGate(options, { objects, snapshots, env: deps.env });
  const tracker = new Tracker(
    { pollingIntervalMs: options.policyRepoPollingIntervalMs },
    {
      source: traces?.source(measured) ?? measured,
      review: createCommitReview({ objects, snapshots, log }),
      gate,
      heads,
      times: deps.times,
      log,
    },
  );
  const bundles = new PolicyBundles(
    { cacheBytes: options.bundleCacheBytes },
    { objects, snapshots, tracker, log: deps.log.child({ component: 'bundles' }) },
  );
  const freshness = isShared
    ? new PolicyFreshness({ tracker, heads, objects, source, isLogUp: () => updateLog.status.up })
    : ALWAYS_FRESH;
  // Snapshots of their own: looking at old commits must not drop those that clients need.
  const viewed = createSnapshots(
    { policyExtensions, manifestPath, ignore },
    { objects: source.views.objects, keep: SNAPSHOTS_VIEWED },
  );
  const views = createPolicyViews(
    { ...placeOf(options), policyExtensions, manifestPath },
    { git: source.views, snapshots: viewed, tracker, heads: agreed, times: deps.times },
  );
  return {
    ...{ tracker, freshness, views, moduleText: createModuleText({ objects, snapshots }) },
    commits: {
      served: () => {
        const { head } = agreed.look();
        return head === undefined ? [] : [head.hash, ...head.earlier];
      },
      about: (asked) => source.views.facts(asked),
    },
    defaultBranch: () => source.defaultBranch,
    dataPlaces: () => {
      const head = tracker.head();
      return head === undefined ? undefined : snapshots.dataPlaces(head);
    },
    bundles: traces?.bundles(bundles) ?? bundles,
    parentFor: traces?.parentFor.bind(traces),
    async run({ onHead }, signal) {
      const onServed = (change: PolicyHeadChange): void => {
        const notices = change.changedDirectories.length === 0 ? [] : policyNotices(change);
        const notify = (): void => {
          for (const notice of notices) deps.hub.publish(notice);
        };
        if (traces === undefined) notify();
        else traces.notify(change, notify);
        const topics = change.changedDirectories.slice(0, TOPICS_KEPT).map((directory) => policyTopic(directory));
        deps.times?.reached(change.hash, 'announced', Date.now(), { topics });
        onHead(new Set(notices.flatMap((notice) => notice.topics)));
      };
      try {
        await tracker.run({ onServed }, signal);
      } finally {
        await gate?.close();
      }
    },
  };
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

/** Whether a name in the update log means the same source: another instance or an earlier run may spell the address differently. */
function isSameSource(name: string): (other: string) => boolean {
  const identity = (text: string): string => {
    const [, address, branch] = /^GIT (.*) (\S+)$/s.exec(text) ?? [];
    return address === undefined ? text : `GIT ${repositoryIdentity(address)} ${branch}`;
  };
  const own = identity(name);
  return (other) => identity(other) === own;
}

/** Creates the source of SYNC_POLICY_SOURCE_TYPE. Each type has its own default folder and never takes over the other's. */
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
  run: async () => undefined,
};

/** One publication: the same data on several topics. */
export interface PolicyNotice {
  topics: string[];
  /** The data, as JSON text. */
  text: string;
}

/**
 * The announcement of a new head: the commit hash on our topic of each changed directory (`default:policy:a/b`), and OPAL's
 * object on OPAL's topics (`policy:a/b`; opal-protocol P1.7). A client subscribes to one of the two.
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
