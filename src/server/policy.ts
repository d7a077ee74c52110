import { join } from 'node:path';
import { SyncError } from '../lib/errors.js';
import type { Logger } from '../lib/log.js';
import { type BundleService, createBundleService } from './bundle/bundle-service.js';
import { policyNotices } from './bundle/notices.js';
import { createCommitReview } from './bundle/review.js';
import { createSnapshots } from './bundle/snapshots.js';
import type { ServerSettings } from './options.js';
import type { Delivery } from './publish.js';
import { createGitSource } from './source/git-source.js';
import { createTracker, type Tracker } from './source/tracker.js';

/** What a caller is told to wait where no policy will come before the server is configured anew. */
const NO_SOURCE_RETRY_SECONDS = 30;

/** The settings that policy depends on. */
export type PolicyOptions = Pick<
  ServerSettings,
  | 'policyRepoBranch'
  | 'policyRepoClonePath'
  | 'policyRepoSshKey'
  | 'policyRepoCloneTimeoutMs'
  | 'policyRepoPollingIntervalMs'
  | 'policyExtensions'
  | 'manifestPath'
  | 'bundleIgnore'
  | 'bundleCacheBytes'
> & { policyRepoUrl: string; stateDir: string };

/** The policy half of a server: follows the source, serves bundles, announces new heads. */
export interface Policy {
  tracker: Tracker;
  bundles: BundleService;
}

/** Makes the parts; they do nothing until `tracker.run`. Throws `config_invalid` for a URL or branch that cannot be used. */
export function createPolicy(
  options: PolicyOptions,
  deps: { hub: Delivery; log: Logger; env: NodeJS.ProcessEnv },
): Policy {
  const log = deps.log.child({ component: 'policy' });
  const source = createGitSource(
    {
      url: options.policyRepoUrl,
      branch: options.policyRepoBranch,
      clonePath: options.policyRepoClonePath ?? join(options.stateDir, 'policy-repo'),
      sshKey: options.policyRepoSshKey,
      fetchTimeoutMs: options.policyRepoCloneTimeoutMs,
      env: deps.env,
    },
    { log },
  );
  const { objects } = source;
  const { policyExtensions, manifestPath, bundleIgnore: ignore } = options;
  const snapshots = createSnapshots({ policyExtensions, manifestPath, ignore }, { objects });
  const tracker = createTracker(
    { pollingIntervalMs: options.policyRepoPollingIntervalMs },
    {
      source,
      review: createCommitReview({ objects, snapshots, log }),
      log,
      onChange: (change) => {
        for (const notice of policyNotices(change)) deps.hub.publish(notice);
      },
    },
  );
  const bundles = createBundleService(
    { cacheBytes: options.bundleCacheBytes },
    { objects, snapshots, tracker, log: deps.log.child({ component: 'bundles' }) },
  );
  return { tracker, bundles };
}

/** Bundles of a server that has no policy source: OPAL's answer for it (protocol-facts 2.2). */
export function noBundles(): BundleService {
  return {
    get: async () => {
      throw new SyncError('policy_not_ready', 'SYNC_POLICY_REPO_URL is not set: this server serves no policy', {
        detail: 'policy repo was not found',
        retryAfterSeconds: NO_SOURCE_RETRY_SECONDS,
        retryable: true,
      });
    },
  };
}
