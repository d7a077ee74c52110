import type { Logger } from '../../lib/observe/log.js';
import type { TraceMemory } from '../changes/change-times.js';
import { memoriesOf } from '../changes/trace-parts.js';
import type { RecentUpdates } from '../clients/recent-updates.js';
import type { ClientRegistry } from '../clients/registry.js';
import type { LogReader } from '../log/update-log.js';
import type { Everyone } from '../peers/all-clients.js';
import type { Instances } from '../peers/instances.js';
import type { PolicyCommits } from '../policy/policy.js';
import { type PolicySourceStatus, viewOfSource } from '../policy/source/source.js';
import { policyFacts } from './change-facts.js';
import type { CommitAbouts } from './commit-abouts.js';
import { type Gathered, servedPolicy } from './gathered.js';
import type { Slices } from './slices.js';

/** Where the view of the fleet comes from. */
export interface FleetSources {
  /** Id of this instance. */
  readonly instance: string;
  /** SYNC_ENVIRONMENT. */
  readonly environment: string | undefined;
  readonly log: LogReader;
  readonly recent: RecentUpdates;
  readonly registry: Pick<ClientRegistry, 'watch'>;
  readonly everyone: Everyone;
  readonly memory: TraceMemory;
  /** Undefined: no policy source is configured. */
  readonly tracker: { wanted(): string | undefined; status(): PolicySourceStatus } | undefined;
  readonly commits: Pick<PolicyCommits, 'served'>;
  readonly abouts: CommitAbouts;
  readonly instances: Pick<Instances, 'list'>;
  readonly now: () => number;
  readonly logger: Logger;
}

/** Collects what is known of the fleet now. */
export async function gather(sources: FleetSources, slices: Slices): Promise<Gathered> {
  const { log, tracker, commits, abouts, instances, now } = sources;
  const { named, incomplete, views } = await sources.everyone((work) => slices.outside(work), true);
  if (slices.isDue) await slices.pause();
  const memories = memoriesOf(sources, views);
  const served = commits.served();
  const facts = policyFacts({ memories, served, about: abouts.known });
  return {
    atMs: now(),
    epoch: log.epoch,
    head: log.head,
    ...{ named, incomplete, memories },
    policy: servedPolicy(tracker?.wanted(), served, memories),
    commits: facts,
    source: tracker === undefined ? null : viewOfSource(tracker.status()),
    instances: instances.list(views),
  };
}
