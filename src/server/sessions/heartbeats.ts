import type { SessionPeer } from '../../pubsub/peer.js';
import { HEARTBEAT_METHOD, type Heartbeat } from '../../wire/session.js';
import type { CutOff } from './lease.js';
import { reconnectJitterMs } from './reconnect-jitter.js';
import type { SessionLog } from './session-handler.js';

/** Number of batches in which the heartbeats of an interval are sent. */
const SLICES = 10;

export interface HeartbeatDeps {
  readonly peers: () => Iterable<SessionPeer>;
  readonly peerCount: () => number;
  readonly log: SessionLog;
  readonly policyHead: () => string | undefined;
  /** Since when this instance is cut off from the backbone; undefined: it is not. */
  readonly cutOff: () => CutOff | undefined;
  /** The name under which the client at a connection is listed, if that is not its id. */
  readonly otherName: (peer: SessionPeer) => string | undefined;
  /** Called with how late the timer is, in milliseconds: a sample of the delay of the event loop. */
  readonly onLate?: ((lateMs: number) => void) | undefined;
}

/**
 * Sends each client the heads of its topics and of the policy once per `intervalMs` until the signal aborts, so that it detects
 * missed notifications (design D31).
 */
export function runHeartbeats(intervalMs: number, deps: HeartbeatDeps, signal: AbortSignal): void {
  let turn = 0;
  let firedMs = performance.now();
  const timer = setInterval(() => {
    const nowMs = performance.now();
    deps.onLate?.(nowMs - firedMs - intervalMs / SLICES);
    firedMs = nowMs;
    for (const peer of deps.peers()) {
      if (sliceOf(peer) !== turn) continue;
      sendHeartbeat(peer, deps);
    }
    turn = (turn + 1) % SLICES;
  }, intervalMs / SLICES);
  signal.addEventListener('abort', () => clearInterval(timer), { once: true });
  if (signal.aborted) clearInterval(timer);
}

export function sendHeartbeat(peer: SessionPeer, deps: Omit<HeartbeatDeps, 'peers'>): void {
  const listedAs = deps.otherName(peer);
  const returnMs = reconnectJitterMs(deps.peerCount());
  const cutOff = deps.cutOff();
  const beat: Heartbeat = {
    epoch: deps.log.epoch,
    heads: { ...deps.log.heads(peer.info.topics) },
    policy_head: deps.policyHead() ?? null,
    ...(returnMs > 0 && { return_ms: returnMs }),
    ...(listedAs !== undefined && { listed_as: listedAs }),
    ...(cutOff !== undefined && { cut_off_ms: cutOff.forMs }),
  };
  peer.tell(HEARTBEAT_METHOD, beat);
}

/** Constant per connection, and evenly distributed: ids are random hex digits. */
function sliceOf({ id }: SessionPeer): number {
  return Number.parseInt(id.slice(0, 6), 16) % SLICES;
}
