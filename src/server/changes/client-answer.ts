import type { Limits } from '../../auth/caller.js';
import { failureFields, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { CLIENT_ACTIONS, type ClientAction } from '../../wire/client-actions.js';
import type { AskRequest } from '../../wire/client-ask.js';
import type { ActionAnswer, ClientAnswer, ClientDetails } from '../../wire/client-details.js';
import type { AskKind } from '../../wire/session.js';
import { whyNotAsked } from '../clients/client-asks.js';
import {
  isPolicyTopic,
  isVisible,
  isWholeFor,
  limitedView,
  type ViewDeps,
  viewOf,
  visiblePart,
} from '../clients/client-view.js';
import type { KnownClient } from '../clients/known-client.js';
import { isBackboneAway } from '../log/log-store.js';
import type { HistoryReader } from '../log/update-log.js';
import type { Everyone } from '../peers/all-clients.js';
import type { AskRelay } from '../peers/ask-relay.js';
import { permittedPart } from './trace-parts.js';

/** Who asks for one client, and which one. */
export interface ClientQuery {
  /** Its name in the list. */
  readonly name: string;
  readonly limits: Limits;
  /** May act, and sees the reasons of updates: a `datasource`, or anyone without authentication. */
  readonly isDatasource: boolean;
}

interface ClientAnswerDeps extends ViewDeps {
  readonly everyone: Everyone;
  readonly log: HistoryReader;
  readonly policyHead: () => string | undefined;
  readonly asks: Pick<AskRelay, 'ask'>;
  /** The text of a module of a commit; undefined: there is none. */
  readonly moduleText: (commit: string, path: string) => Promise<string | undefined>;
  readonly logger: Logger;
}

/** What `GET /clients/{id}` and `POST /clients/{id}/actions` answer. */
export interface ClientAnswers {
  /** Rejects with `client_unknown`. */
  view(query: ClientQuery): Promise<ClientAnswer>;
  /** Rejects with `client_unknown`, `..._not_permitted`, and as {@link AskRelay.ask}. */
  act(query: ClientQuery, request: AskRequest): Promise<ActionAnswer>;
}

const SHOWN_TOPICS = 100;
/** Most topics whose last update is read for its reason: the newest ones. */
const READ_REASONS = 20;
/** Lines shown around an error. */
const AROUND = 2;
const LONGEST_LINE = 300;
/** A client that is away is remembered with as much of its error. */
const COMPARED = 200;
const HIDDEN_ERROR = 'it failed';

export function createClientAnswers(deps: ClientAnswerDeps): ClientAnswers {
  async function find({ name, limits }: ClientQuery) {
    const { named, connected } = await deps.everyone();
    const visible = named.filter(([, client]) => isVisible(client, limits));
    const client = visible.find(([own]) => own === name)?.[1];
    if (client !== undefined) return { client, visible, connected: connected.get(client.key) ?? 0 };
    throw new SyncError('client_unknown', `no client ${JSON.stringify(name.slice(0, 100))} is known`);
  }

  return {
    async view(query) {
      const { limits, isDatasource } = query;
      const { client, visible, connected } = await find(query);
      const policyHead = deps.policyHead() ?? null;
      const part = visiblePart(client, limits);
      const whole = viewOf(part, { name: query.name, connected, policyHead }, deps);
      const view = limitedView(whole, client, limits, deps.recent);
      const [told, topics, source] = await Promise.all([
        detailsOf(client, limits, deps),
        topicsOf(part, query, deps),
        limits.isLimited ? null : sourceOf(client, policyHead, deps),
      ]);
      return {
        now: deps.now(),
        epoch: deps.log.epoch,
        head: deps.log.head,
        policy_head: policyHead,
        client: view,
        topics,
        ...told,
        actions: isDatasource ? actionsOf(client, limits) : [],
        source,
        same_error: sameError(client, visible),
      };
    },
    async act(query, request) {
      const { client } = await find(query);
      const refused = whyNotPermitted(client, query.limits, request.kind);
      if (refused !== undefined) throw refused;
      const { done, text } = await deps.asks.ask(client, request);
      return { done, text: query.limits.isLimited ? plainText(request.kind, done) : text };
    },
  };
}

/** Why a limited caller may not ask this of a client: it concerns all that the client has. */
function whyNotPermitted(client: KnownClient, limits: Limits, kind: AskKind): SyncError | undefined {
  if (limits.permittedPaths !== undefined) {
    return new SyncError('path_not_permitted', 'the token is limited to paths, and an action concerns all of a client');
  }
  if (!isWholeFor(client, limits)) {
    return new SyncError('topic_not_permitted', `the token does not permit all topics of client ${client.clientId}`);
  }
  if (kind !== 'prune' || !limits.isLimited) return undefined;
  // Those of earlier subscriptions.
  return new SyncError('topic_not_permitted', 'the token is limited, and orphaned documents may be of any topic');
}

function actionsOf(client: KnownClient, limits: Limits): ClientAction[] {
  const all = Object.keys(CLIENT_ACTIONS) as ClientAction[];
  return all.filter((action) => (whyNotPermitted(client, limits, action) ?? whyNotAsked(client, action)) === undefined);
}

type Told = Pick<ClientAnswer, 'details' | 'details_missing'>;

async function detailsOf(
  client: KnownClient,
  limits: Limits,
  { asks, logger }: Pick<ClientAnswerDeps, 'asks' | 'logger'>,
): Promise<Told> {
  const missing = (why: string): Told => ({ details: null, details_missing: why });
  if (whyNotPermitted(client, limits, 'details') !== undefined) return missing('limited');
  if (client.kind === 'plain') return missing('plain');
  if (client.awaySinceMs !== null) return missing('away');
  if (!client.asks.includes('details')) return missing('old');
  let details: ClientDetails | undefined;
  try {
    details = (await asks.ask(client, { kind: 'details' })).details;
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    logger.debug({ client_id: client.clientId, ...failureFields(error) }, 'a client has not told about itself');
    return missing(error.code === 'client_away' ? 'away' : 'no_answer');
  }
  if (details === undefined) return missing('no_answer');
  details = inOurTime(details, Date.now());
  if (!limits.isLimited) return { details, details_missing: null };
  // Documents of earlier subscriptions may be of any topic.
  if (details.orphaned_total > 0) return missing('limited');
  return { details: withoutTexts(details), details_missing: null };
}

/** The details with all times by our clock: the client has just said what time it has. */
function inOurTime(details: ClientDetails, nowMs: number): ClientDetails {
  const by = details.now === undefined ? 0 : nowMs - details.now;
  const moved = (at: number | null): number | null => (at === null ? null : at + by);
  return {
    ...details,
    ...(details.now !== undefined && { now: nowMs }),
    started_at: details.started_at + by,
    orphaned: details.orphaned.map((one) => ({ ...one, since: moved(one.since) })),
    transactions: details.transactions.map((one) => ({ ...one, at: one.at + by })),
    drift: details.drift === null ? null : { ...details.drift, checked_at: moved(details.drift.checked_at) },
  };
}

/** Texts of errors can quote a response from inside the network of the client. */
function withoutTexts(details: ClientDetails): ClientDetails {
  const hidden = (error: string | null): string | null => (error === null ? null : HIDDEN_ERROR);
  return {
    ...details,
    transactions: details.transactions.map((one) => ({ ...one, error: hidden(one.error) })),
    drift: details.drift === null ? null : { ...details.drift, error: hidden(details.drift.error) },
  };
}

async function topicsOf(
  client: KnownClient,
  { limits, isDatasource }: ClientQuery,
  deps: Pick<ClientAnswerDeps, 'log' | 'recent'>,
): Promise<ClientAnswer['topics']> {
  const { log, recent } = deps;
  const shown = client.topics.slice(0, SHOWN_TOPICS);
  const heads = log.heads(shown);
  const seqs = [...new Set(shown.map((topic) => heads[topic] ?? 0))].filter((seq) => seq > 0);
  const newest = seqs.sort((one, other) => other - one).slice(0, READ_REASONS);
  const read = isDatasource ? newest : [];
  const reasons = new Map(await Promise.all(read.map(async (seq) => [seq, await reasonOf(seq, limits, log)] as const)));
  const { position } = client;
  const standings =
    client.kind === 'plain' || position === null ? undefined : recent.standings(position, new Set(shown));
  return shown.map((topic) => {
    if (isPolicyTopic(topic)) return { topic, wanted: null, held: null, behind: null, last: null };
    const wanted = heads[topic] ?? 0;
    const last = reasons.get(wanted) ?? null;
    if (position === null || standings === undefined) return { topic, wanted, held: null, behind: null, last };
    const { behind, held } = standings.get(topic) ?? { behind: 0, held: null };
    // What it holds may be older than what is remembered.
    const isNewest = behind === 0 && position.applied_through >= wanted;
    return { topic, wanted, held: isNewest ? wanted : held, behind, last };
  });
}

/**
 * The reason of an update; null: there is none, the log has dropped it, or none of it is permitted.
 */
async function reasonOf(seq: number, limits: Limits, log: HistoryReader): Promise<string | null> {
  const { records } = await log.audit(seq + 1, 1).catch((error: unknown) => {
    if (isBackboneAway(error)) return { records: [] }; // all else is in memory
    throw error;
  });
  const record = records.find((one) => one.seq === seq);
  return (record && permittedPart(record, limits)?.reason) || null;
}

/**
 * The lines around a policy error. The client names the place: only what every bundle has is read.
 */
async function sourceOf(
  { state }: KnownClient,
  policyHead: string | null,
  { moduleText }: Pick<ClientAnswerDeps, 'moduleText'>,
): Promise<ClientAnswer['source']> {
  const { error = null, wanted = null } = state?.policy ?? {};
  const commit = wanted ?? policyHead;
  if (error?.file == null || error.line === null || commit === null) return null;
  const text = await moduleText(commit, error.file);
  const all = text?.split('\n') ?? [];
  const { file, line } = error;
  if (line < 1 || line > all.length) return null;
  const first = Math.max(1, line - AROUND);
  const lines = all.slice(first - 1, line + AROUND).map((one) => one.replace(/\r$/, '').slice(0, LONGEST_LINE));
  return { file, line, first, lines };
}

function sameError(client: KnownClient, visible: readonly (readonly [string, KnownClient])[]): number {
  const own = errorKey(client);
  return own === undefined ? 0 : visible.filter(([, other]) => errorKey(other) === own).length;
}

function errorKey({ state }: KnownClient): string | undefined {
  const error = state?.policy?.error;
  return error == null ? undefined : JSON.stringify([error.message.slice(0, COMPARED), error.file, error.line]);
}

const DONE: Readonly<Record<AskKind, string>> = {
  details: 'the client tells about itself',
  refresh: 'the client fetches policy and data again',
  prune: 'the client removed what the log does not know',
  drift_check: 'the client compares its engine with what it wrote',
  log_level: 'the client logs with this level until its next start',
};

/** For limited callers: the client's own words may name any document, or quote its network. */
function plainText(kind: AskKind, isDone: boolean): string {
  return isDone ? DONE[kind] : 'the client could not do it; its log says why';
}
