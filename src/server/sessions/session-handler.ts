import { failureFields, firstIssue } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import { RemoteClock } from '../../lib/remote-clock.js';
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
import type { StoreStatus } from '../log/log-store.js';
import { waitForSeq } from '../log/wait-for-seq.js';
import type { ClientAsks } from './client-asks.js';
import type { KnownClient } from './known-client.js';
import type { CutOff } from './lease.js';
import { createCatchUpJitter } from './reconnect-jitter.js';
import type { ClientRegistry } from './registry.js';
import { inOurTime } from './report-times.js';

/** The part of the update log that sessions use. */
export interface SessionLog {
  readonly epoch: string;
  /** Last seq that this instance has seen. */
  readonly head: number;
  /** Whether rows of other instances arrive here. */
  readonly status: StoreStatus;
  /** Last seq of a data update on each of these topics; topics without one may be missing. */
  heads(topics: readonly string[]): Readonly<Record<string, number>>;
}

export interface SessionHandlerOptions {
  readonly heartbeatMs: number;
  /** Ping timeout of the older of two connections of a client. */
  readonly aliveMs?: number;
  /** How long a client waits if its position is ahead of this instance. */
  readonly catchUpMs?: number;
}

export interface SessionHandlerDeps {
  readonly registry: ClientRegistry;
  /** Waits for answers of clients; undefined: nothing is asked. */
  readonly asks?: Pick<ClientAsks, 'answered' | 'left'> | undefined;
  readonly log: SessionLog;
  /** Commit that is served. */
  readonly policyHead: () => string | undefined;
  /** The name under which the client at a connection is listed, if that is not its id. */
  readonly otherName: (peer: SessionPeer) => string | undefined;
  /** Since when this instance is cut off from the backbone; undefined, or left out: it is not. */
  readonly cutOff?: (() => CutOff | undefined) | undefined;
  /** Called with what a client says of its last changes, by our clock, before its state is noted. */
  readonly onSteps?: ((client: KnownClient, steps: readonly ChangeStep[]) => void) | undefined;
  /** Milliseconds since 1970. Default: the clock. */
  readonly now?: (() => number) | undefined;
  readonly logger: Logger;
}

const ALIVE_MS = 2000;

/** Opens sessions and accepts reports (design D29, D20). */
export function createSessionHandler(options: SessionHandlerOptions, deps: SessionHandlerDeps): SessionHandler {
  const { aliveMs = ALIVE_MS, catchUpMs } = options;
  const { registry, log, logger, otherName, now = Date.now } = deps;
  const spread = createCatchUpJitter();
  /** Connections with a rejected report: only the first is logged as a warning. */
  const warned = new WeakSet<SessionPeer>();
  /** The clocks of clients, as their reports tell. */
  const clocks = new WeakMap<SessionPeer, RemoteClock>();

  /** The report with times by our clock. */
  function byOurClock(peer: SessionPeer, report: SessionReport): SessionReport {
    const arrivedMs = now();
    const clock = clocks.get(peer) ?? new RemoteClock();
    clocks.set(peer, clock);
    if (report.at !== undefined) clock.heard(report.at, arrivedMs);
    return inOurTime(report, clock.offsetMs, arrivedMs);
  }

  async function admit(
    peer: SessionPeer,
    { client_id: clientId, topics, position, labels, asks, at: atMs }: SessionSubscribe,
    subscribe: () => boolean | string,
  ): Promise<SessionAnswer> {
    const place = position === undefined ? 'other' : await placeOf(position);
    if (place === 'unknown') {
      return refused(`this instance has read the log up to ${log.head}, and its backbone is unavailable: try again`);
    }
    const resumes = place === 'same';
    const here = registry.clientAt(peer)?.clientId;
    if (here !== undefined && here !== clientId) return refused(`this connection is that of client ${here}`);
    const done = subscribe();
    if (done !== true) return refused(done || 'the subscription was not carried out: see the log of the server');
    const older = registry.connected(peer, clientId, { position: (resumes && position) || null, labels, asks, atMs });
    const listedAs = otherName(peer);
    if (here === undefined && listedAs !== undefined) {
      logger.warn(
        { client_id: clientId, listed_as: listedAs, subject: peer.info.subject, address: addressOf(peer) },
        'a client uses an id that belongs to the holder of another token: it is served, and listed under another name',
      );
    }
    if (older !== undefined) {
      lookAt(older, clientId).catch((error: unknown) =>
        logger.error(failureFields(error, 'stack'), 'cannot check an older connection of a client'),
      );
    }
    const cutOff = deps.cutOff?.();
    return {
      accepted: true,
      epoch: log.epoch,
      head: log.head,
      resumes,
      heads: log.heads(topics),
      policy_head: deps.policyHead() ?? null,
      heartbeat_seconds: options.heartbeatMs / 1000,
      spread_ms: spread(Date.now()),
      ...(cutOff !== undefined && { cut_off_ms: cutOff.forMs }),
      ...(listedAs !== undefined && { listed_as: listedAs }),
    };
  }

  /** Closes the older of two connections of a client if it is dead; otherwise two clients use the same id. */
  async function lookAt(older: SessionPeer, clientId: string): Promise<void> {
    if (await older.isAlive(aliveMs)) {
      registry.lives(older);
      const address = addressOf(older);
      logger.warn({ client_id: clientId, address }, 'two clients use the same id: each needs its own SYNC_CLIENT_ID');
    } else {
      older.drop('the same client has connected anew');
      registry.left(older);
    }
  }

  /**
   * A head behind a client's position means a log that went back (design D25), unless this instance has just not seen it yet. While
   * the backbone is unavailable nobody can tell: the client would read everything anew, and show older documents meanwhile.
   */
  async function placeOf(position: Position): Promise<'same' | 'other' | 'unknown'> {
    if (position.epoch !== log.epoch) return 'other';
    const wasUp = log.status.up;
    if (await waitForSeq(log, highestOf(position), catchUpMs)) return 'same';
    return wasUp && log.status.up ? 'other' : 'unknown';
  }

  return {
    protocol: SESSION_PROTOCOL,
    open(peer, args, subscribe) {
      if (!('client_id' in args)) return undefined;
      const parsed = sessionSubscribe.safeParse(args);
      if (!parsed.success) return Promise.resolve(refused(`not a subscription: ${firstIssue(parsed.error)}`));
      return admit(peer, parsed.data, subscribe);
    },
    takes: (method) => method === REPORT_METHOD || method === ANSWER_METHOD,
    call(peer, method, args, bytes = Number.POSITIVE_INFINITY) {
      if (method === ANSWER_METHOD) return deps.asks?.answered(peer, args, bytes) ?? false;
      const parsed = sessionReport.safeParse(args);
      if (!parsed.success) {
        logger.debug({ error: firstIssue(parsed.error) }, 'a report is invalid');
        return false;
      }
      const { position, client_id } = parsed.data;
      // No client can hold an update that the log does not have: it would count as applied once it arrives.
      if (position !== null && position.epoch === log.epoch && highestOf(position) > log.head) {
        const fields = { client_id, address: addressOf(peer), claimed: highestOf(position), head: log.head };
        const level = warned.has(peer) ? 'debug' : 'warn';
        warned.add(peer);
        logger[level](fields, 'rejected a report of an update that the log does not have');
        return false;
      }
      const client = registry.clientAt(peer);
      if (client?.clientId !== client_id) return false;
      const { steps = [], ...report } = byOurClock(peer, parsed.data);
      if (steps.length > 0) deps.onSteps?.(client, steps);
      return registry.reported(peer, ofThisLog(report));
    },
    closed(peer, why, isGoodbye) {
      registry.left(peer, why, isGoodbye);
      deps.asks?.left(peer);
    },
  };

  /** Removes a position in another log: it has no meaning here. */
  function ofThisLog<R extends { position: Position | null }>(report: R): R {
    return report.position === null || report.position.epoch === log.epoch ? report : { ...report, position: null };
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
