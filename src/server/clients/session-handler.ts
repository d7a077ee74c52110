import { failureFields, firstIssue } from '../../lib/errors.js';
import { RemoteClock } from '../../lib/net/remote-clock.js';
import type { Logger } from '../../lib/observe/log.js';
import type { SessionHandler, SessionPeer } from '../../pubsub/peer.js';
import { ANSWER_METHOD } from '../../wire/client-ask.js';
import {
  type ChangeStep,
  type Position,
  REPORT_METHOD,
  SESSION_PROTOCOL,
  type SessionAnswer,
  type SessionReport,
  type SessionSubscribe,
  sessionReport,
  sessionSubscribe,
} from '../../wire/session.js';
import type { LogPosition } from '../log/update-log.js';
import { waitForSeq } from '../log/wait-for-seq.js';
import type { ClientAsks } from './client-asks.js';
import type { KnownClient } from './known-client.js';
import type { CutOff } from './lease.js';
import { createCatchUpJitter } from './reconnect-jitter.js';
import type { ClientRegistry } from './registry.js';

export interface SessionHandlerOptions {
  readonly heartbeatMs: number;
  /** Ping timeout of the older of two connections of a client. */
  readonly aliveMs?: number;
  /** How long a client waits if its position is ahead of this instance. */
  readonly catchUpMs?: number;
}

/** Calls `enter` once the client, as it will be, is stored, and returns what it returns. */
export type Arrives = <T>(client: KnownClient, enter: () => T) => Promise<T>;

const enterAtOnce: Arrives = async (_client, enter) => enter();

export interface SessionHandlerDeps {
  readonly registry: ClientRegistry;
  /** Undefined: nothing is stored. */
  readonly arrives?: Arrives | undefined;
  /** Waits for answers of clients; undefined: nothing is asked. */
  readonly asks?: Pick<ClientAsks, 'answered' | 'left'> | undefined;
  readonly log: LogPosition;
  /** Commit that is served. */
  readonly policyHead: () => string | undefined;
  /** The name under which the client at a connection is listed, if that is not its id. */
  readonly otherName: (peer: SessionPeer) => string | undefined;
  /** Since when this instance is cut off from the backbone; undefined, or left out: it is not. */
  readonly cutOff?: (() => CutOff | undefined) | undefined;
  /**
   * Called with what a client says of its last changes, by our clock, before its state is noted.
   */
  readonly onSteps?: ((client: KnownClient, steps: readonly ChangeStep[]) => void) | undefined;
  /** Milliseconds since 1970. Default: the clock. */
  readonly now?: (() => number) | undefined;
  readonly logger: Logger;
}

const ALIVE_MS = 2000;

/** The clock of a client, as its reports tell, and {@link steadyOffset}. */
interface ClientClock {
  readonly clock: RemoteClock;
  steadyMs: number | undefined;
}

/** Opens sessions and accepts reports (design D29, D20). */
export class ClientSessions implements SessionHandler {
  readonly protocol = SESSION_PROTOCOL;
  readonly #options: SessionHandlerOptions;
  readonly #deps: SessionHandlerDeps;
  readonly #spread = createCatchUpJitter();
  /** Connections with a rejected report: only the first is logged as a warning. */
  readonly #warned = new WeakSet<SessionPeer>();
  readonly #clocks = new WeakMap<SessionPeer, ClientClock>();

  constructor(options: SessionHandlerOptions, deps: SessionHandlerDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  open(
    peer: SessionPeer,
    args: Readonly<Record<string, unknown>>,
    subscribe: () => boolean | string,
  ): Promise<SessionAnswer> | undefined {
    if (!('client_id' in args)) return undefined;
    const parsed = sessionSubscribe.safeParse(args);
    if (!parsed.success) return Promise.resolve(refused(`not a subscription: ${firstIssue(parsed.error)}`));
    return this.#admit(peer, parsed.data, subscribe);
  }

  takes(method: string): boolean {
    return method === REPORT_METHOD || method === ANSWER_METHOD;
  }

  call(
    peer: SessionPeer,
    method: string,
    args: Readonly<Record<string, unknown>>,
    bytes = Number.POSITIVE_INFINITY,
  ): boolean {
    const { asks, log, logger, onSteps, registry } = this.#deps;
    if (method === ANSWER_METHOD) return asks?.answered(peer, args, bytes) ?? false;
    const parsed = sessionReport.safeParse(args);
    if (!parsed.success) {
      logger.debug({ error: firstIssue(parsed.error) }, 'a report is invalid');
      return false;
    }
    const { position, client_id } = parsed.data;
    // No client can hold an update that the log does not have: it would count as applied once it
    // arrives.
    if (position !== null && position.epoch === log.epoch && highestOf(position) > log.head) {
      const fields = { client_id, address: addressOf(peer), claimed: highestOf(position), head: log.head };
      const level = this.#warned.has(peer) ? 'debug' : 'warn';
      this.#warned.add(peer);
      logger[level](fields, 'rejected a report of an update that the log does not have');
      return false;
    }
    const client = registry.clientAt(peer);
    if (client?.clientId !== client_id) return false;
    const { steps = [], ...report } = this.#byOurClock(peer, parsed.data);
    if (steps.length > 0) onSteps?.(client, steps);
    // A position in another log has no meaning here.
    const isOfThisLog = report.position?.epoch === log.epoch;
    return registry.reported(peer, isOfThisLog ? report : { ...report, position: null });
  }

  closed(peer: SessionPeer, why?: string, isGoodbye?: boolean): void {
    const { asks, registry } = this.#deps;
    registry.left(peer, why, isGoodbye);
    asks?.left(peer);
  }

  async #admit(
    peer: SessionPeer,
    { client_id: clientId, topics, position, labels, asks, at: atMs }: SessionSubscribe,
    subscribe: () => boolean | string,
  ): Promise<SessionAnswer> {
    const { registry, log, logger, otherName, policyHead } = this.#deps;
    const place = position === undefined ? 'other' : await this.#placeOf(position);
    if (place === 'unknown') {
      return refused(`this instance has read the log up to ${log.head}, and its backbone is unavailable: try again`);
    }
    const resumes = place === 'same';
    const said = { position: (resumes && position) || null, labels, asks, atMs };
    const arriving = registry.arriving(peer, clientId, said, topics);
    return await (this.#deps.arrives ?? enterAtOnce)(arriving, () => {
      const here = registry.clientAt(peer)?.clientId;
      if (here !== undefined && here !== clientId) return refused(`this connection is that of client ${here}`);
      const done = subscribe();
      if (done !== true) return refused(done || 'the subscription was not carried out: see the log of the server');
      const older = registry.connected(peer, clientId, said);
      const listedAs = otherName(peer);
      if (here === undefined && listedAs !== undefined) {
        logger.warn(
          { client_id: clientId, listed_as: listedAs, subject: peer.info.subject, address: addressOf(peer) },
          'a client uses an id that belongs to the holder of another token: it is served, and listed under another name',
        );
      }
      if (older !== undefined) {
        this.#lookAt(older, clientId).catch((error: unknown) =>
          logger.error(failureFields(error, 'stack'), 'cannot check an older connection of a client'),
        );
      }
      const cutOff = this.#deps.cutOff?.();
      return {
        accepted: true,
        epoch: log.epoch,
        head: log.head,
        resumes,
        heads: log.heads(topics),
        policy_head: policyHead() ?? null,
        heartbeat_seconds: this.#options.heartbeatMs / 1000,
        spread_ms: this.#spread(Date.now()),
        ...(cutOff !== undefined && { cut_off_ms: cutOff.forMs }),
        ...(listedAs !== undefined && { listed_as: listedAs }),
      };
    });
  }

  /** Closes the older of two connections if it is dead; otherwise two clients share an id. */
  async #lookAt(older: SessionPeer, clientId: string): Promise<void> {
    const { registry, logger } = this.#deps;
    if (await older.isAlive(this.#options.aliveMs ?? ALIVE_MS)) {
      registry.lives(older);
      const address = addressOf(older);
      logger.warn({ client_id: clientId, address }, 'two clients use the same id: each needs its own SYNC_CLIENT_ID');
    } else {
      older.drop('the same client has connected anew');
      registry.left(older);
    }
  }

  /**
   * A head behind a client's position means a log that went back (design D25), unless this instance
   * has just not seen it yet. While the backbone is unavailable nobody can tell: the client would
   * read everything anew, and show older documents meanwhile.
   */
  async #placeOf(position: Position): Promise<'same' | 'other' | 'unknown'> {
    const { log } = this.#deps;
    if (position.epoch !== log.epoch) return 'other';
    const wasUp = log.status.up;
    if (await waitForSeq(log, highestOf(position), this.#options.catchUpMs)) return 'same';
    return wasUp && log.status.up ? 'other' : 'unknown';
  }

  /** The report with times by our clock. */
  #byOurClock(peer: SessionPeer, report: SessionReport): SessionReport {
    const arrivedMs = (this.#deps.now ?? Date.now)();
    const known = this.#clocks.get(peer) ?? { clock: new RemoteClock(), steadyMs: undefined };
    this.#clocks.set(peer, known);
    const { clock } = known;
    if (report.at !== undefined) clock.heard(report.at, arrivedMs);
    known.steadyMs = steadyOffset(clock.offsetMs, known.steadyMs);
    return inOurTime(report, clock.offsetMs, arrivedMs, known.steadyMs);
  }
}

function highestOf({ applied_through, applied_beyond, unresolved }: Position): number {
  return Math.max(applied_through, ...applied_beyond, ...unresolved);
}

function addressOf({ info: { host, port } }: SessionPeer): string {
  return `${host}:${port}`;
}

function refused(reason: string): SessionAnswer {
  return { accepted: false, reason };
}

/** Reports take some tens of milliseconds: up to this, a repeated time stays the same. */
const SAME_MS = 100;

/** The offset to our clock for times that a client repeats. `before`: what it was so far. */
function steadyOffset(offsetMs: number, before: number | undefined): number {
  return before !== undefined && Math.abs(offsetMs - before) <= SAME_MS ? before : offsetMs;
}

/**
 * A report with all its times by our clock. `offsetMs`: what a time of the client plus this is by
 * our clock; `steadyMs`: {@link steadyOffset} for what it says again. None is later than the
 * arrival of the report, and none before 1970: a client cannot know the future, whatever its clock
 * says.
 */
export function inOurTime<R extends Omit<SessionReport, 'client_id'>>(
  report: R,
  offsetMs: number,
  arrivedMs: number,
  steadyMs = offsetMs,
): R {
  const within = (at: number): number => Math.max(0, Math.min(Math.round(at), arrivedMs));
  const once = (at: number): number => within(at + offsetMs);
  const ours = (at: number): number => within(at + steadyMs);
  const maybe = <T extends number | null | undefined>(at: T): T => (typeof at === 'number' ? (ours(at) as T) : at);
  const { since, policy, engine, failing, steps } = report;
  return {
    ...report,
    since: ours(since),
    ...(policy !== undefined && { policy: { ...policy, since: maybe(policy.since) } }),
    engine: { ...engine, ...(engine.since !== undefined && { since: ours(engine.since) }) },
    failing: failing.map((one) => (one.since === undefined ? one : { ...one, since: ours(one.since) })),
    ...(steps !== undefined && {
      steps: steps.map((step) => ({
        ...step,
        ...(step.heard !== undefined && { heard: once(step.heard) }),
        ...(step.fetched !== undefined && { fetched: once(step.fetched) }),
        ...(step.applied !== undefined && { applied: once(step.applied) }),
        ...(step.refused !== undefined && { refused: once(step.refused) }),
        ...(step.replaced !== undefined && { replaced: once(step.replaced) }),
      })),
    }),
  };
}
