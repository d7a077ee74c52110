import type { Limits } from '../../auth/caller.js';
import { SyncError } from '../../lib/errors.js';
import type { TraceAnswer, TraceClient, TraceStage } from '../../wire/trace.js';
import { isPolicyTopic, isVisible } from '../clients/client-view.js';
import { isConcerned, type KnownClient, wasConnected, wasThere } from '../clients/known-client.js';
import { byOurClock } from '../log/log-clock.js';
import type { AuditRecord, HistoryReader } from '../log/update-log.js';
import type { Everyone } from '../peers/all-clients.js';
import { refusalView, type TraceMemory } from './change-times.js';
import { type FoundChange, findChange, type OtherRow } from './find-change.js';
import {
  commitHashes,
  commitStanding,
  firstStage,
  isOfStart,
  memoriesOf,
  permittedPart,
  type Remembered,
  rememberedOf,
  timesOf,
} from './trace-parts.js';
import { convergenceOf, standingToCommit, standingToUpdate, traceView } from './trace-rules.js';

export interface TraceQuery {
  /** A seq, the id of an update, or a commit. */
  readonly id: string;
  /** Only clients whose names come after this one. */
  readonly after?: string | undefined;
  /** Page size. */
  readonly limit: number;
  readonly limits: Limits;
  /** Whether it sees who published, and why. */
  readonly seesPublisher: boolean;
}

interface TraceDeps {
  readonly everyone: Everyone;
  readonly instance: string;
  readonly log: HistoryReader;
  readonly memory: TraceMemory;
  readonly policyHead: () => string | undefined;
  /** The served commit and those before it, the newest first. */
  readonly servedCommits: () => readonly string[];
  readonly now: () => number;
}

/** What a trace says beside what all have in common. */
type About = Pick<TraceAnswer, 'kind' | 'id'> & Partial<TraceAnswer>;

/** A change with the clients that it concerns. */
interface Traced {
  readonly about: About;
  readonly recordedMs?: number;
  readonly memories: readonly Remembered[];
  readonly clients: readonly TraceClient[];
  /** The stages are those of a start of the server that had the change already. */
  readonly isOfStart?: boolean;
}

/** Maximum topics and paths of an update that are named. */
const SHOWN = { topics: 100, paths: 20 };
const NOT_IN_MEMORY =
  'no server instance has its times in memory (of the last 1000 changes since its start): the states follow from the log and from what clients hold now';
const OF_START =
  'the server started with this commit: its stages are those of the start, and the times before were lost';
const TOLD_AGAIN =
  'the server started after this commit: its stages were lost, and clients said again what became of it';
const SHORT = 'times of clients were forgotten to make room for those of later changes';

/** Says what became of one change (docs/reference/fleet-api.md). Rejects with `trace_unknown`. */
export function createTrace(deps: TraceDeps): (query: TraceQuery) => Promise<TraceAnswer> {
  return async (query) => {
    const all = await deps.everyone(undefined, true);
    const memories = memoriesOf(deps, all.views);
    const policyHead = deps.policyHead();
    const served = deps.servedCommits();
    const commits = commitHashes(memories, policyHead === undefined ? served : [policyHead, ...served]);
    const { log } = deps;
    const found = await findChange(query.id, { log, memories, commits, limits: query.limits });
    const visible = all.named.filter(([, client]) => isVisible(client, query.limits));
    const remembered = (key: number | string): Remembered[] => rememberedOf(memories, key);
    const part = found.kind === 'update' ? permittedPart(found.record, query.limits) : undefined;
    const record = part && { ...part, timeMs: byOurClock(deps.log, part.timeMs) };
    const traced =
      found.kind === 'commit'
        ? tracedCommit(found.hash, remembered(found.hash), visible, query, {
            isHead: found.hash === policyHead,
            wasServed: served.includes(found.hash),
          })
        : record && tracedUpdate(record, remembered(record.seq), visible, query, deps.log.epoch);
    if (traced === undefined)
      throw unknown(query.id, deps.log.head, found.kind === 'none' ? found : { lookedTo: undefined });
    return answerOf(traced, query, { ...deps, incomplete: all.incomplete });
  };
}

function tracedUpdate(
  record: AuditRecord,
  memories: readonly Remembered[],
  visible: readonly (readonly [string, KnownClient])[],
  { limits: { isLimited }, seesPublisher }: TraceQuery,
  epoch: string,
): Traced {
  const { seq, id, timeMs, publisher, reason, entries } = record;
  const topics = new Set(entries.flatMap((entry) => entry.topics));
  const paths = entries.map(({ dst_path }) => dst_path);
  const update = { seq, topics, paths, isLimited };
  const times = timesOf(memories);
  const announcedMs = firstStage(memories, 'announced') ?? timeMs;
  const clients = visible
    .filter(([, client]) => isConcerned(client, topics))
    .map(([name, client]) => {
      const own = times.get(client.key);
      const standing = standingToUpdate(client, { update, epoch, announcedMs, times: own });
      return traceView(client, { name, standing, times: own, wasThere: wasThere(client.spans, seq) });
    });
  const by = seesPublisher ? { publisher, reason } : {};
  const about: About = {
    ...{ kind: 'update', id, seq, ...by, topics: [...topics].slice(0, SHOWN.topics), topics_total: topics.size },
    paths: paths.slice(0, SHOWN.paths),
  };
  return { about, recordedMs: timeMs, memories, clients };
}

function tracedCommit(
  hash: string,
  memories: readonly Remembered[],
  visible: readonly (readonly [string, KnownClient])[],
  { limits: { isLimited } }: TraceQuery,
  place: { readonly isHead: boolean; readonly wasServed: boolean },
): Traced {
  const times = timesOf(memories);
  const announcedMs = firstStage(memories, 'announced');
  const { isHead } = place;
  const { state, error } = commitStanding(memories, place);
  const clients = !['served', 'replaced'].includes(state)
    ? []
    : visible
        .filter(([, { topics }]) => topics.some(isPolicyTopic))
        .map(([name, client]) => {
          const own = times.get(client.key);
          const standing = standingToCommit(client, { hash, isHead, isLimited, announcedMs, times: own });
          return traceView(client, { name, standing, times: own, wasThere: wasConnected(client, announcedMs) });
        });
  return {
    about: {
      kind: 'commit',
      id: hash,
      state,
      ...(error !== undefined && { error: refusalView(error) }),
    },
    memories,
    clients,
    isOfStart: isOfStart(memories),
  };
}

function answerOf(
  { about, recordedMs, memories, clients, isOfStart: ofStart = false }: Traced,
  { after, limit, limits: { isLimited } }: TraceQuery,
  { log, instance, now, incomplete }: TraceDeps & { readonly incomplete: string | null },
): TraceAnswer {
  const stages = stagesOf(memories, { recordedMs, isLimited });
  const counts: Record<string, number> = {};
  for (const { state } of clients) counts[state] = (counts[state] ?? 0) + 1;
  const isShort = memories.some(({ memory }) => memory.isShort === true);
  const [first] = stages;
  const hasTimes = memories.length > 0 && !isShort && !ofStart;
  const from = after === undefined ? 0 : clients.findIndex(({ client_id: name }) => name > after);
  const page = from < 0 ? [] : clients.slice(from, from + limit);
  const isLast = from < 0 || from + page.length >= clients.length;
  return {
    ...about,
    epoch: log.epoch,
    now: now(),
    instance,
    stages,
    in_memory: memories.length > 0,
    notes: [
      ...(memories.length > 0 ? [] : [NOT_IN_MEMORY]),
      ...(ofStart ? [stages.length === 0 ? TOLD_AGAIN : OF_START] : []),
      ...(isShort ? [SHORT] : []),
      ...(incomplete === null ? [] : [incomplete]),
    ],
    counts,
    convergence: hasTimes && first !== undefined ? convergenceOf(clients, first.at) : null,
    total: clients.length,
    clients: page,
    next: isLast ? null : (page.at(-1)?.client_id ?? null),
  };
}

/** All stages by time. Limited callers get no connections: those count every topic. */
function stagesOf(
  memories: readonly Remembered[],
  { recordedMs, isLimited }: { readonly recordedMs: number | undefined; readonly isLimited: boolean },
): TraceStage[] {
  const stages = memories.flatMap(({ instance, memory }) =>
    Object.entries(memory.stages).flatMap(([stage, at]): TraceStage[] => {
      if (at === undefined) return [];
      const subscribers = stage === 'announced' && !isLimited ? memory.subscribers : undefined;
      return [{ stage, at, instance, ...(subscribers !== undefined && { subscribers }) }];
    }),
  );
  const recorded = recordedMs === undefined ? [] : [{ stage: 'recorded', at: recordedMs, instance: null }];
  return [...stages, ...recorded].sort((one, other) => one.at - other.at);
}

function unknown(id: string, head: number, { lookedTo, row }: Unfound): SyncError {
  const why =
    row === undefined
      ? `the update log goes to ${head}${lookedTo === undefined ? '' : `, and ids were looked for down to ${lookedTo}`}`
      : `row ${id} of the update log ${rowText(row)}`;
  const text = `no data update or policy commit ${JSON.stringify(id.slice(0, 100))} is known: ${why}`;
  return new SyncError('trace_unknown', text);
}

type Unfound = Pick<Extract<FoundChange, { kind: 'none' }>, 'lookedTo' | 'row'>;

function rowText({ kind, commit }: OtherRow): string {
  switch (kind) {
    case 'policy':
      return commit === undefined
        ? 'is a change of the policy source, which is traced by its commit'
        : `is about commit ${commit.slice(0, 100)}, of which no server instance has the times any more`;
    case 'base':
      return 'is a change of the configured data sources (SYNC_DATA_CONFIG_SOURCES), which has no trace';
    case 'update':
      return 'keeps the document of earlier updates, and is none itself';
    case 'dropped':
      return 'was dropped: superseded updates are kept for SYNC_LOG_RETENTION';
  }
}
