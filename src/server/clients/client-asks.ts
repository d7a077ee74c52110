import { SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { hexId } from '../../lib/run/hex-id.js';
import type { SessionPeer } from '../../pubsub/peer.js';
import {
  ASK_METHOD,
  type Ask,
  type AskAnswer,
  type AskRequest,
  answer,
  MAX_ANSWER_BYTES,
} from '../../wire/client-ask.js';
import type { AskKind } from '../../wire/session.js';
import { AskRoom } from './ask-room.js';
import type { KnownClient } from './known-client.js';
import type { ClientRegistry } from './registry.js';

export interface ClientAsksOptions {
  /** Timeout of an ask to act. Default: 10 s. */
  readonly actMs?: number;
  /** Timeout of an ask for details, which a page waits for. Default: 4 s. */
  readonly tellMs?: number;
  /** Asks under way at a time, at most half of them for details. Default: 64. */
  readonly maxOpen?: number;
}

export interface ClientAsksDeps {
  readonly registry: Pick<ClientRegistry, 'peerByKey'>;
  readonly log: Logger;
}

/** An ask under way. */
interface Open {
  readonly peer: SessionPeer;
  readonly request: AskRequest;
  readonly done: Promise<AskAnswer>;
  end(outcome: AskAnswer | SyncError): void;
}

/** How long a client may take to answer. */
export const ASK_TIMES = { actMs: 10_000, tellMs: 4_000 } as const;
const MAX_OPEN = 64;
const RETRY_SECONDS = 1;

/**
 * Asks clients of this instance over the sockets of their sessions. One ask of a kind is under way
 * at a time at one client: a second one for the same shares its answer. Whatever a client answers,
 * or does not, costs no more than the room of its ask.
 */
export class ClientAsks {
  readonly #options: Required<ClientAsksOptions>;
  readonly #deps: ClientAsksDeps;
  readonly #byId = new Map<string, Open>();
  /** By client and kind. */
  readonly #byPlace = new Map<string, Open>();
  readonly #room: AskRoom;

  constructor(deps: ClientAsksDeps, options: ClientAsksOptions = {}) {
    this.#deps = deps;
    this.#options = { ...ASK_TIMES, maxOpen: MAX_OPEN, ...options };
    this.#room = new AskRoom(this.#options.maxOpen);
  }

  /**
   * Asks a client of this instance. Rejects with `client_away`, `client_not_askable`, `client_busy`
   * or `client_no_answer`; what the client could not do is an answer with `done: false`.
   */
  async ask(client: KnownClient, request: AskRequest): Promise<AskAnswer> {
    const obstacle = whyNotAsked(client, request.kind);
    if (obstacle !== undefined) throw obstacle;
    const peer = this.#deps.registry.peerByKey(client.key);
    if (peer === undefined) throw away(client);
    const place = `${request.kind} ${client.key}`;
    const known = this.#byPlace.get(place);
    if (known !== undefined && known.peer === peer) {
      if (levelOf(known.request) === levelOf(request)) return known.done;
      throw busy(`client ${client.clientId} is being asked for another ${request.kind}`);
    }
    const leave = this.#room.enter(request.kind);
    if (leave === undefined) throw busy('this server instance is asking as many clients as it may');
    return this.#begin(peer, client, request, { place, leave }).done;
  }

  /**
   * Takes what a client answers. `bytes`: its size. False: nothing waits for it, or it is invalid.
   */
  answered(peer: SessionPeer, args: Readonly<Record<string, unknown>>, bytes: number): boolean {
    const open = typeof args.id === 'string' ? this.#byId.get(args.id) : undefined;
    if (open === undefined || open.peer !== peer) return false;
    const parsed = bytes > MAX_ANSWER_BYTES ? undefined : answer.safeParse(args);
    if (parsed?.success) {
      open.end(parsed.data);
      return true;
    }
    const why = parsed === undefined ? `it has more than ${MAX_ANSWER_BYTES} bytes` : 'it is not as documented';
    open.end(noAnswer(`the answer of the client cannot be used: ${why}`));
    return false;
  }

  /** A connection has closed. */
  left(peer: SessionPeer): void {
    for (const open of [...this.#byId.values()]) {
      if (open.peer === peer) open.end(new SyncError('client_away', 'the client left before it answered'));
    }
  }

  #begin(
    peer: SessionPeer,
    { clientId }: KnownClient,
    request: AskRequest,
    { place, leave }: { readonly place: string; readonly leave: () => void },
  ): Open {
    const id = hexId();
    const { actMs, tellMs } = this.#options;
    const timeoutMs = request.kind === 'details' ? tellMs : actMs;
    let end: Open['end'] = () => undefined;
    const done = new Promise<AskAnswer>((resolve, reject) => {
      const timer = setTimeout(() => {
        const text = `client ${clientId} is connected, and has not answered within ${timeoutMs / 1000} s`;
        end(noAnswer(text));
      }, timeoutMs);
      end = (outcome) => {
        clearTimeout(timer);
        if (this.#byId.delete(id)) leave();
        if (this.#byPlace.get(place) === open) this.#byPlace.delete(place);
        if (outcome instanceof SyncError) reject(outcome);
        else resolve(outcome);
      };
    });
    const open: Open = { peer, request, done, end: (outcome) => end(outcome) };
    this.#byId.set(id, open);
    this.#byPlace.set(place, open);
    this.#deps.log.debug({ client_id: clientId, kind: request.kind }, 'asking a client');
    peer.tell(ASK_METHOD, { id, ...request } satisfies Ask);
    return open;
  }
}

/** Why a client is not asked; undefined: it can be. */
export function whyNotAsked(client: KnownClient, kind: AskKind): SyncError | undefined {
  const { clientId, awaySinceMs, asks } = client;
  if (client.kind === 'plain') {
    return new SyncError('client_not_askable', `${clientId} is an OPAL client, which cannot be asked`);
  }
  if (awaySinceMs !== null) return away(client);
  if (asks.length === 0) {
    return new SyncError('client_not_askable', `client ${clientId} is of a version that cannot be asked`);
  }
  if (asks.includes(kind)) return undefined;
  const text = `client ${clientId} takes no actions from afar: SYNC_CLIENT_REMOTE_ACTIONS is false there`;
  return new SyncError('client_not_askable', text);
}

export function noAnswer(text: string): SyncError {
  return new SyncError('client_no_answer', text);
}

function away({ clientId }: KnownClient): SyncError {
  return new SyncError('client_away', `client ${clientId} is not connected`);
}

export function busy(text: string): SyncError {
  return new SyncError('client_busy', text, { retryAfterSeconds: RETRY_SECONDS });
}

function levelOf(request: AskRequest): string | undefined {
  return request.kind === 'log_level' ? request.level : undefined;
}
