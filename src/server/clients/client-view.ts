import { createHash } from 'node:crypto';
import type { Limits } from '../../auth/caller.js';
import type { ClientView } from '../../wire/clients.js';
import { ALL_TOPICS, POLICY_TOPIC } from '../../wire/topics.js';
import type { LogPosition } from '../log/update-log.js';
import { concerns, type KnownClient, kindText, reportedAtOf } from './known-client.js';
import type { RecentUpdates } from './recent-updates.js';

/** Maximum list lengths. */
const SHOWN = { topics: 100, failing: 20 };

export interface ViewDeps {
  readonly log: LogPosition;
  readonly recent: RecentUpdates;
  readonly now: () => number;
}

/** Returns the view of a client. `connected`: number of instances that it is connected to. */
export function viewOf(
  client: KnownClient,
  { name, connected, policyHead }: { name: string; connected: number; policyHead: string | null },
  { log, recent, now }: ViewDeps,
): ClientView {
  const { state, lastError, clientId } = client;
  const topics = client.topics.slice(0, SHOWN.topics);
  return {
    client_id: name,
    own_id: name === clientId ? null : clientId,
    subject: client.subject,
    kind: client.kind,
    connected: client.awaySinceMs === null,
    connected_at: client.connectedAtMs,
    away_since: client.awaySinceMs,
    ...(client.awaySinceMs !== null && client.awayReason !== undefined && { away_reason: client.awayReason }),
    address: client.address,
    instance: client.instance,
    duplicates: Math.max(0, connected - 1),
    topics,
    labels: client.labels,
    topics_left_out: client.topicsLeftOut + client.topics.length - topics.length,
    ready: state?.ready ?? null,
    healthy: state?.healthy ?? null,
    since: state?.since ?? null,
    reported_at: reportedAtOf(client),
    ...(state?.at !== undefined &&
      client.reportedAtMs !== null && { clock_ahead_ms: Math.round(state.at - client.reportedAtMs) }),
    engine: state?.engine ?? null,
    policy: policyOf(client, policyHead),
    data: dataOf(client, topics, { log, recent, now }),
    failing: (state?.failing ?? []).slice(0, SHOWN.failing),
    failing_total: state?.failing_total ?? state?.failing.length ?? 0,
    last_error:
      lastError === null
        ? null
        : { path: lastError.path, error: lastError.error, kind: lastError.kind, at: lastError.atMs },
  };
}

function policyOf({ state }: KnownClient, policyHead: string | null): ClientView['policy'] {
  const held = state?.policy?.held ?? state?.policy_hash ?? null;
  const wanted = policyHead ?? state?.policy?.wanted ?? null;
  return {
    wanted,
    held,
    current: state === null || wanted === null ? null : held === wanted,
    error: state?.policy?.error ?? null,
    since: state?.policy?.since ?? null,
    ...(state?.policy?.missing !== undefined && { missing_directories: state.policy.missing }),
  };
}

function dataOf(client: KnownClient, shown: readonly string[], { log, recent, now }: ViewDeps): ClientView['data'] {
  const { kind, topics, position: held, state } = client;
  const heads = log.heads(topics);
  const newest = recent.newestOn(topics, heads);
  const lag = kind === 'session' ? recent.lag(held, topics, heads, now()) : undefined;
  return {
    newest,
    // A position advances with every row of the log, including commits and updates of other topics.
    applied: held === null ? null : Math.min(held.applied_through, newest),
    wanted: Object.fromEntries(shown.map((topic) => [topic, heads[topic] ?? 0])),
    held,
    lag_updates: lag?.updates ?? null,
    lag_seconds: lag === undefined ? null : Math.round(lag.seconds * 1000) / 1000,
    lag_at_least: lag?.atLeast ?? false,
    blocked: [...(state?.blocked ?? [])],
  };
}

/** Whether a topic is one of policy notices, which every valid token may see. */
export function isPolicyTopic(topic: string): boolean {
  return topic === ALL_TOPICS || POLICY_TOPIC.test(topic);
}

/** How much a caller sees of a client. If limited, the kind of a failure, not its text. */
export type ClientLimits = Pick<Limits, 'permittedTopics' | 'isLimited'>;

/** Whether a caller sees a client: it shares a topic with it. */
export function isVisible(
  { topics }: KnownClient,
  { permittedTopics }: Pick<ClientLimits, 'permittedTopics'>,
): boolean {
  return permittedTopics === undefined || topics.some((topic) => permittedTopics.has(topic));
}

/**
 * The client with only the permitted topics, to which all its figures refer. Failures may concern
 * any data topic of the client: they are there only if all of them are permitted.
 */
export function visiblePart(client: KnownClient, limits: ClientLimits): KnownClient {
  const { permittedTopics } = limits;
  if (permittedTopics === undefined) return client;
  const { topics, state } = client;
  const isWhole = isWholeFor(client, limits);
  return {
    ...client,
    topics: topics.filter((topic) => permittedTopics.has(topic)),
    topicsLeftOut: 0,
    state: state === null || isWhole ? state : { ...state, failing: [], failing_total: 0 },
    lastError: isWhole ? client.lastError : null,
  };
}

/** Returns what a caller sees of a client, given the `view` of its {@link visiblePart}. */
export function limitedView(
  view: ClientView,
  client: KnownClient,
  limits: ClientLimits,
  recent: Pick<RecentUpdates, 'between'>,
): ClientView {
  if (!limits.isLimited) return view;
  const { policy, engine, last_error: last } = view;
  return {
    ...view,
    subject: null,
    engine: engine?.error == null ? engine : { ...engine, error: 'the engine does not answer' },
    policy:
      policy.error == null ? policy : { ...policy, error: { ...policy.error, message: 'the commit is not in force' } },
    data: isWholeFor(client, limits) ? view.data : permittedData(view.data, limits, recent),
    failing: view.failing.map((one) => ({ ...one, error: kindText(one.kind) })),
    last_error: last === null ? null : { ...last, error: kindText(last.kind) },
  };
}

/** Without the seqs of updates on other topics; those that are not remembered count as such. */
function permittedData(
  data: ClientView['data'],
  { permittedTopics }: ClientLimits,
  recent: Pick<RecentUpdates, 'between'>,
): ClientView['data'] {
  const isPermitted = (seq: number): boolean => {
    const [update] = recent.between(seq - 1, seq);
    return update !== undefined && concerns([...(permittedTopics ?? [])], update.topics);
  };
  const { held, blocked } = data;
  return {
    ...data,
    held: held && {
      ...held,
      applied_beyond: held.applied_beyond.filter(isPermitted),
      unresolved: held.unresolved.filter(isPermitted),
    },
    blocked: blocked.filter(isPermitted),
  };
}

/** Whether a caller may see all data topics of a client. */
export function isWholeFor({ topics, topicsLeftOut }: KnownClient, { permittedTopics }: ClientLimits): boolean {
  if (permittedTopics === undefined) return true;
  return topicsLeftOut === 0 && topics.every((topic) => permittedTopics.has(topic) || POLICY_TOPIC.test(topic));
}

/** Returns the subject that owns a client id; undefined: it has no owner. */
export type OwnerOf = (clientId: string) => string | undefined;

/** Digits of a derived name that collides with an id. */
const ALL_DIGITS = 64;

/** Ids that an address cannot end with: `/clients/..` is another place. */
const NO_SEGMENTS: ReadonlySet<string> = new Set(['', '.', '..']);
/** Halves of characters, which no address has, and what turns the direction of text. */
const IN_NO_NAME = /[\p{Cs}\u202a-\u202e\u2066-\u2069]/gu;

/**
 * The name in the list: the id, unless another subject owns it, no address has it, or it is a twin.
 */
export function listedNameOf(client: KnownClient, ownerOf: OwnerOf): string {
  const owner = ownerOf(client.clientId);
  const isOurs = owner === undefined || owner === client.subject;
  const isOwn = client.twin === undefined && isOurs && isName(client.clientId);
  return isOwn ? client.clientId : derivedName(client);
}

/** The name under which a client is listed, if that is not its id. */
export function otherNameOf(client: KnownClient | undefined, ownerOf: OwnerOf): string | undefined {
  const name = client && listedNameOf(client, ownerOf);
  return name === client?.clientId ? undefined : name;
}

function isName(clientId: string): boolean {
  return !NO_SEGMENTS.has(clientId) && clientId.search(IN_NO_NAME) === -1;
}

/** Unique names. Clients with a session choose first, then those that used their id first. */
export function distinctNames(clients: readonly KnownClient[], ownerOf: OwnerOf): Map<string, KnownClient> {
  const named = new Map<string, KnownClient>();
  for (const client of clients.toSorted(byRight)) {
    let name = listedNameOf(client, ownerOf);
    if (named.has(name)) name = derivedName(client);
    if (named.has(name)) name = derivedName(client, ALL_DIGITS);
    named.set(name, client);
  }
  return named;
}

function byRight(a: KnownClient, b: KnownClient): number {
  if (a.kind !== b.kind) return a.kind === 'session' ? -1 : 1;
  if ((a.twin === undefined) !== (b.twin === undefined)) return a.twin === undefined ? -1 : 1;
  return a.claimedMs - b.claimedMs || (a.key < b.key ? -1 : 1);
}

const DERIVED_DIGITS = 8;

/** The name of a client whose id belongs to another one: the id and a hash of its key. */
export function derivedName({ clientId, key }: { clientId: string; key: string }, digits = DERIVED_DIGITS): string {
  return `${clientId.replace(IN_NO_NAME, '\ufffd')}~${createHash('sha256').update(key).digest('hex').slice(0, digits)}`;
}
