import type { Logger } from '../../lib/log.js';
import type { Instances } from '../instances/instances.js';
import type { UpdateLog } from '../log/update-log.js';
import type { PolicyCommits } from '../policy.js';
import type { RecentUpdates } from '../sessions/recent-updates.js';
import type { Sessions } from '../sessions/sessions.js';
import { memoriesOf } from '../sessions/trace-parts.js';
import { type PolicySourceStatus, viewOfSource } from '../source/source.js';
import type { TraceMemory } from '../trace/change-times.js';
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
  readonly log: UpdateLog;
  readonly recent: RecentUpdates;
  readonly sessions: Pick<Sessions, 'everyone' | 'onClient'>;
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
  const { named, incomplete, views } = await sources.sessions.everyone((work) => slices.outside(work));
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
