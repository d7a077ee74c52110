import type { Logger } from '../../lib/observe/log.js';
import type { SessionPeer } from '../../pubsub/peer.js';
import { HEARTBEAT_METHOD, type HeartbeatMessage } from '../../wire/session.js';
import type { LogPosition } from '../log/update-log.js';
import type { CutOff } from './lease.js';
import { reconnectJitterMs } from './reconnect-jitter.js';
import type { ClientRegistry } from './registry.js';

/** Number of batches in which the heartbeats of an interval are sent. */
const SLICES = 10;

interface HeartbeatsDeps {
  readonly registry: Pick<ClientRegistry, 'peers' | 'peerCount'>;
  readonly log: LogPosition;
  readonly policyHead: () => string | undefined;
  /** Since when this instance is cut off from the backbone; undefined: it is not. */
  readonly cutOff: () => CutOff | undefined;
  /** The name under which the client at a connection is listed, if that is not its id. */
  readonly otherName: (peer: SessionPeer) => string | undefined;
  /** Called with how late the timer is, in milliseconds: a sample of the event loop delay. */
  readonly onLate?: ((lateMs: number) => void) | undefined;
  readonly logger: Pick<Logger, 'info' | 'warn'>;
}

/**
 * Tells clients the heads of their topics and of the policy, so that they notice gaps (design D31).
 */
export class Heartbeats {
  readonly #intervalMs: number;
  readonly #deps: HeartbeatsDeps;

  constructor(intervalMs: number, deps: HeartbeatsDeps) {
    this.#intervalMs = intervalMs;
    this.#deps = deps;
  }

  /** Sends each client one per interval until the signal aborts. */
  run(signal: AbortSignal): void {
    const { registry, onLate } = this.#deps;
    const sliceMs = this.#intervalMs / SLICES;
    let turn = 0;
    let firedMs = performance.now();
    const timer = setInterval(() => {
      const nowMs = performance.now();
      onLate?.(nowMs - firedMs - sliceMs);
      firedMs = nowMs;
      for (const peer of registry.peers) if (sliceOf(peer) === turn) this.#send(peer);
      turn = (turn + 1) % SLICES;
    }, sliceMs);
    signal.addEventListener('abort', () => clearInterval(timer), { once: true });
    if (signal.aborted) clearInterval(timer);
  }

  /** The served commit has changed: tells clients that are on none of the notified topics. */
  tellHead(notified: ReadonlySet<string>): void {
    for (const peer of this.#deps.registry.peers)
      if (!peer.info.topics.some((topic) => notified.has(topic))) this.#send(peer);
  }

  /** Cut off, or no longer: clients learn at once whether what they hold may be old. */
  tellCutOff(): void {
    const { cutOff, logger, registry } = this.#deps;
    const since = cutOff()?.sinceMs;
    if (since === undefined) logger.info({}, 'this instance reaches the backbone again: its clients are told');
    else
      logger.warn(
        { since: new Date(since).toISOString() },
        'this instance is cut off from the backbone: its clients are told that what they hold may be old',
      );
    for (const peer of registry.peers) this.#send(peer);
  }

  #send(peer: SessionPeer): void {
    const { registry, log, policyHead, otherName } = this.#deps;
    const listedAs = otherName(peer);
    const returnMs = reconnectJitterMs(registry.peerCount);
    const cutOff = this.#deps.cutOff();
    const beat: HeartbeatMessage = {
      epoch: log.epoch,
      heads: { ...log.heads(peer.info.topics) },
      policy_head: policyHead() ?? null,
      ...(returnMs > 0 && { return_ms: returnMs }),
      ...(listedAs !== undefined && { listed_as: listedAs }),
      ...(cutOff !== undefined && { cut_off_ms: cutOff.forMs }),
    };
    peer.tell(HEARTBEAT_METHOD, beat);
  }
}

/** Constant per connection, and evenly distributed: ids are random hex digits. */
function sliceOf({ id }: SessionPeer): number {
  return Number.parseInt(id.slice(0, 6), 16) % SLICES;
}
