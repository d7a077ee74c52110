import { errorText } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import type { SessionHandler, SessionPeer } from '../../pubsub/session-peer.js';
import {
  type Position,
  REPORT_METHOD,
  SESSION_PROTOCOL,
  type SessionAnswer,
  type SessionSubscribe,
  sessionReport,
  sessionSubscribe,
} from '../../wire/session.js';
import { hasReached } from '../log/reached.js';
import type { ClientRegistry } from './registry.js';
import { createSpread } from './spread.js';

/** The log, as far as sessions need it. */
export interface SessionLog {
  readonly epoch: string;
  /** Last seq that this instance has seen. */
  readonly head: number;
  /** Last seq of a data update on each of these topics; topics without one may be missing. */
  heads(topics: readonly string[]): Readonly<Record<string, number>>;
}

/** What {@link createSessionHandler} is made with. */
export interface SessionHandlerOptions {
  readonly heartbeatMs: number;
  /** How long the first of two connections of one client may take to show that it lives. */
  readonly aliveMs?: number;
  /** How long a client waits that holds more than this instance has seen. */
  readonly catchUpMs?: number;
}

/** What it works with. */
export interface SessionHandlerDeps {
  readonly registry: ClientRegistry;
  readonly log: SessionLog;
  /** Commit that is served. */
  readonly policyHead: () => string | undefined;
  readonly logger: Logger;
}

/** A connection over the longest of networks answers a ping in a fraction of it. */
const ALIVE_MS = 2000;

/** Opens sessions, and takes reports (design 4, 9.7). */
export function createSessionHandler(options: SessionHandlerOptions, deps: SessionHandlerDeps): SessionHandler {
  const { aliveMs = ALIVE_MS, catchUpMs } = options;
  const { registry, log, logger } = deps;
  const spread = createSpread();
  /** Openings of one client id come one after the other. */
  const openings = new Map<string, Promise<unknown>>();

  async function admit(
    peer: SessionPeer,
    { client_id: clientId, topics, position }: SessionSubscribe,
    subscribe: () => boolean,
  ): Promise<SessionAnswer> {
    const here = registry.clientAt(peer);
    if (here !== undefined && here !== clientId) return refused(`this connection is that of client ${here}`);
    const first = registry.peerOf(clientId);
    if (first !== undefined && first !== peer) {
      if (await first.isAlive(aliveMs)) {
        const { host, port } = first.info;
        logger.warn({ client_id: clientId, first: `${host}:${port}` }, 'a second client with the same id is refused');
        return refused(`a client with the id ${clientId} is connected already: each needs its own SYNC_CLIENT_ID`);
      }
      first.drop('the same client has connected anew');
      registry.left(first);
    }
    const resumes = position !== undefined && (await isOfThisLog(position));
    if (!subscribe()) return refused('the subscription was not carried out: see the log of the server');
    registry.connected(peer, clientId, resumes ? position : null);
    return {
      accepted: true,
      epoch: log.epoch,
      head: log.head,
      resumes,
      heads: log.heads(topics),
      policy_head: deps.policyHead() ?? null,
      heartbeat_seconds: options.heartbeatMs / 1000,
      spread_ms: spread(Date.now()),
    };
  }

  /** A head behind a client's position is a new epoch (design 9.8), unless this instance only has not seen it yet. */
  async function isOfThisLog(position: Position): Promise<boolean> {
    if (position.epoch !== log.epoch) return false;
    const highest = Math.max(position.applied_through, ...position.applied_beyond);
    return await hasReached(log, highest, catchUpMs);
  }

  return {
    protocol: SESSION_PROTOCOL,
    open(peer, args, subscribe) {
      if (!('client_id' in args)) return undefined;
      const parsed = sessionSubscribe.safeParse(args);
      if (!parsed.success) return Promise.resolve(refused(`not a subscription: ${firstIssue(parsed.error)}`));
      const clientId = parsed.data.client_id;
      const before = openings.get(clientId) ?? Promise.resolve();
      const opening = before.then(() => admit(peer, parsed.data, subscribe));
      // The next in line waits for the end, however it comes; the failure goes to whoever asked.
      const settled = opening.then(
        () => undefined,
        () => undefined,
      );
      openings.set(clientId, settled);
      void settled.then(() => {
        if (openings.get(clientId) === settled) openings.delete(clientId);
      });
      return opening;
    },
    takes: (method) => method === REPORT_METHOD,
    call(peer, _method, args) {
      const parsed = sessionReport.safeParse(args);
      if (parsed.success) return registry.reported(peer, ofThisLog(parsed.data));
      logger.debug({ error: firstIssue(parsed.error) }, 'a report is not as documented');
      return false;
    },
    closed: (peer) => registry.left(peer),
  };

  /** A position of another log says nothing here. */
  function ofThisLog<R extends { position: Position | null }>(report: R): R {
    return report.position === null || report.position.epoch === log.epoch ? report : { ...report, position: null };
  }
}

function refused(reason: string): SessionAnswer {
  return { accepted: false, reason };
}

function firstIssue(error: { issues: readonly { path: readonly PropertyKey[]; message: string }[] }): string {
  const [first] = error.issues;
  return first === undefined ? errorText(error) : `${first.path.map(String).join('.')}: ${first.message}`;
}
