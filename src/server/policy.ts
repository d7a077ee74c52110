import { join } from 'node:path';
import { assertNotOurs, childEnv } from '../lib/child-env.js';
import { SyncError } from '../lib/errors.js';
import type { Logger } from '../lib/log.js';
import type { OpalPolicyNotice } from '../wire/bundle.js';
import { opalPolicyTopic, policyTopic } from '../wire/topics.js';
import { PolicyBundles } from './bundle/policy-bundles.js';
import { createCommitReview } from './bundle/review.js';
import { createSnapshots } from './bundle/snapshot.js';
import type { UpdateLog } from './log/update-log.js';
import type { ServerOptions } from './options.js';
import { ALWAYS_FRESH, PolicyFreshness } from './policy-freshness.js';
import type { Delivery } from './publish.js';
import { createSharedPolicyHead } from './shared-policy-head.js';
import { bundleLocation } from './source/bundle-api-config.js';
import { createBundleSource } from './source/bundle-api-source.js';
import type { GitObjects } from './source/git-objects.js';
import { parseGitRemote } from './source/git-remote.js';
import { createGitSource } from './source/git-source.js';
import { repositoryIdentity } from './source/repository-address.js';
import type { PolicyHeadChange, PolicySource } from './source/source.js';
import { Tracker } from './source/tracker.js';

/** Retry-After of a server without a policy source. */
const NO_SOURCE_RETRY_SECONDS = 30;

/** The policy half of a server: follows the source, serves bundles, announces new heads. */
export interface Policy {
  /** Undefined if no policy source is configured. */
  readonly tracker: Tracker | undefined;
  readonly bundles: Pick<PolicyBundles, 'get'>;
  readonly freshness: Pick<PolicyFreshness, 'check'>;
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
  const heads = createSharedPolicyHead(
    { source: sourceName(options), isSame: isSameSource(sourceName(options)), isShared },
    { updateLog, log },
  );
  const tracker = new Tracker(
    { pollingIntervalMs: options.policyRepoPollingIntervalMs },
    {
      source: deps.measured?.(source) ?? source,
      review: createCommitReview({ objects, snapshots, log }),
      heads,
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
  return {
    ...{ tracker, bundles, freshness },
    run({ onHead }, signal) {
      const onServed = (change: PolicyHeadChange): void => {
        const notices = change.changedDirectories.length === 0 ? [] : policyNotices(change);
        for (const notice of notices) deps.hub.publish(notice);
        onHead(new Set(notices.flatMap(({ topics }) => topics)));
      };
      return tracker.run({ onServed }, signal);
    },
  };
}

/** Returns the name of the source in the update log, without secrets. */
function sourceName(options: ServerOptions): string {
  if (options.policySourceType === 'API') return `API ${bundleLocation(options).display}`;
  return `GIT ${parseGitRemote(options.policyRepoUrl ?? '').display} ${options.policyRepoBranch}`;
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
): (PolicySource & { readonly objects: GitObjects }) | undefined {
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
      env,
    },
    { log },
  );
}

/** A server without a policy source responds as OPAL does (opal-protocol P2.2). */
const NO_POLICY: Policy = {
  tracker: undefined,
  bundles: {
    get: async () => {
      throw new SyncError('policy_not_ready', 'SYNC_POLICY_REPO_URL is not set: this server serves no policy', {
        detail: 'policy repo was not found',
        retryAfterSeconds: NO_SOURCE_RETRY_SECONDS,
        retryable: true,
      });
    },
  },
  freshness: ALWAYS_FRESH,
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
