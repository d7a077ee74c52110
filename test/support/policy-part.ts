import { silentLogger } from '../../src/lib/observe/log.js';
import { PolicyBundles } from '../../src/server/policy/bundle/policy-bundles.js';
import { createCommitReview } from '../../src/server/policy/bundle/review.js';
import { createSnapshots } from '../../src/server/policy/bundle/snapshot.js';
import { ALWAYS_FRESH, type PolicyFreshness } from '../../src/server/policy/policy-freshness.js';
import type { GitObjects } from '../../src/server/policy/source/git-objects.js';
import { createGitSource, type GitSourceOptions } from '../../src/server/policy/source/git-source.js';
import type { PolicyHeadChange, PolicySource } from '../../src/server/policy/source/source.js';
import { Tracker } from '../../src/server/policy/source/tracker.js';
import type { PolicyBundle } from '../../src/wire/bundle.js';
import { ownHeads } from './shared-policy-head.js';
import { until } from './until.js';

/** The policy half of a server, running. `await using` stops it; the local repository stays. */
export interface PolicyPart extends AsyncDisposable {
  readonly source: Source;
  readonly tracker: Tracker;
  readonly bundles: PolicyBundles;
  readonly freshness: Pick<PolicyFreshness, 'check'>;
  readonly changes: readonly PolicyHeadChange[];
  /** Waits for this head; without one for any. */
  serves(hash?: string): Promise<void>;
  bundle(directories?: readonly string[], baseHash?: string): Promise<PolicyBundle>;
  /** Rejects where only other settings mend what is wrong with the source. */
  readonly ended: Promise<void>;
}

type Source = PolicySource & { readonly objects: GitObjects };

/** What is the same for every source. */
export interface PolicyPartOptions {
  pollingIntervalMs?: number;
  manifestPath?: string;
  ignore?: readonly string[];
}

/** Follows a repository as a server does, with fast retries. */
export function startPolicyPart(
  options: Pick<GitSourceOptions, 'url' | 'clonePath'> & Partial<GitSourceOptions> & PolicyPartOptions,
): PolicyPart {
  const git: Omit<GitSourceOptions, 'url' | 'clonePath'> & typeof options = {
    branch: 'master',
    fetchTimeoutMs: 10_000,
    env: process.env,
    ...options,
  };
  return followSource(createGitSource(git, { log: silentLogger() }), options);
}

/** Follows any source. */
export function followSource(source: Source, options: PolicyPartOptions = {}): PolicyPart {
  const log = silentLogger();
  const changes: PolicyHeadChange[] = [];
  const { objects } = source;
  const snapshots = createSnapshots(
    { policyExtensions: ['.rego'], manifestPath: options.manifestPath ?? '', ignore: options.ignore ?? [] },
    { objects },
  );
  const tracker = new Tracker(
    { pollingIntervalMs: options.pollingIntervalMs ?? 0, retry: { minMs: 10, maxMs: 100 } },
    {
      source,
      review: createCommitReview({ objects, snapshots, log }),
      heads: ownHeads(),
      log,
    },
  );
  const bundles = new PolicyBundles({ cacheBytes: 16 * 1024 * 1024 }, { objects, snapshots, tracker, log });
  const stop = new AbortController();
  const run = tracker.run({ onServed: (change) => changes.push(change) }, stop.signal);
  // Whoever waits for it hears of it.
  const settled = run.catch(() => undefined);
  return {
    source,
    ended: run,
    tracker,
    bundles,
    freshness: ALWAYS_FRESH,
    changes,
    serves: async (hash) => {
      const what = `head ${hash ?? 'of any kind'}; status ${JSON.stringify(tracker.status())}`;
      await until(() => tracker.head() !== undefined && (hash === undefined || tracker.head() === hash), {
        withinMs: 20_000,
        what,
      });
    },
    bundle: async (directories = [], baseHash) => {
      const { json } = await bundles.get({ directories, baseHash });
      return JSON.parse(json.toString('utf8')) as PolicyBundle;
    },
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await settled;
    },
  };
}
