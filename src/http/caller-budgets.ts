import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { OpenConnections } from '../lib/net/open-connections.js';
import type { Logger } from '../lib/observe/log.js';
import { Arrivals } from '../lib/run/arrivals.js';
import { ByteBudget, type Holder, type Release } from '../lib/run/budget.js';
import type { CallerTurn } from '../lib/run/shared-work.js';
import { lineOf, Turns } from '../lib/run/turns.js';
import { hasBody } from './address-limits.js';

/** What callers may have under way at a time. */
export interface CallerBudgets {
  /** Bytes of responses that were not sent yet. */
  readonly responses: ByteBudget;
  /** Bytes of request bodies. */
  readonly bodies: ByteBudget;
  /** Requests whose work grows with the log or the fleet. */
  readonly scans: Turns;
}

/** Bounds of {@link createCallerBudgets}. */
export interface CallerBounds {
  readonly responseBytes: number;
  readonly bodyBytes: number;
  readonly scans: number;
}

const MIB = 1024 * 1024;
/** Of an API that has no settings for it. */
const DEFAULT_BOUNDS: CallerBounds = { responseBytes: 128 * MIB, bodyBytes: 128 * MIB, scans: 8 };

/** Creates the budgets of an API; `settings` bound them, for messages. */
export function createCallerBudgets(
  bounds: CallerBounds = DEFAULT_BOUNDS,
  settings: { readonly [of in keyof CallerBounds]?: string } = {},
): CallerBudgets {
  const about = (what: string, of: keyof CallerBounds) => ({ what, ...(settings[of] && { setting: settings[of] }) });
  return {
    responses: new ByteBudget(bounds.responseBytes, about('bytes of responses under way', 'responseBytes')),
    bodies: new ByteBudget(bounds.bodyBytes, about('bytes of request bodies under way', 'bodyBytes')),
    scans: new Turns(bounds.scans, about('requests that wait for their turn to be worked on', 'scans')),
  };
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Whose share a request uses. */
    holderOf(request: FastifyRequest): Holder;
    /**
     * Waits for the turn of a request whose work grows; it ends with its response at the latest.
     */
    enterTurn(request: FastifyRequest): Promise<Release>;
    /** The turn of a request for the part whose work grows. */
    turnOf(request: FastifyRequest): CallerTurn;
  }
  interface FastifyRequest {
    endTurn: Release | undefined;
  }
}

/** Responses up to this size are not counted: refusals and health checks always get through. */
const UNCOUNTED_BYTES = 1_024;
/** Headers of a response that are wrong for the refusal in its place. */
const OF_BODY = ['content-encoding', 'content-length', 'etag', 'cache-control'];

/**
 * Bounds what each token and each address may have under way: bytes of responses that they do not
 * read, bytes of bodies, and work. What is beyond gets 429, or 503 where all callers together have
 * too much; all others are served.
 */
export function useCallerBudgets(
  app: FastifyInstance,
  deps: {
    readonly budgets: CallerBudgets;
    readonly connections: OpenConnections;
    readonly addressOf: (request: FastifyRequest['raw']) => string;
    readonly log: Logger;
  },
): void {
  const { budgets, connections, log } = deps;
  const arrivals = new Arrivals(budgets.bodies);
  const holderOf = ({ caller, raw }: FastifyRequest): Holder => ({
    subject: caller?.subject ?? null,
    address: deps.addressOf(raw),
  });
  app.decorate('holderOf', holderOf);
  app.decorateRequest('endTurn', undefined);
  app.decorate('enterTurn', async (request: FastifyRequest) => {
    const end = await budgets.scans.enter(holderOf(request));
    request.endTurn = end;
    return end;
  });
  app.decorate('turnOf', (request: FastifyRequest): CallerTurn => {
    const holder = holderOf(request);
    return { who: lineOf(holder), run: (work) => budgets.scans.run(holder, work) };
  });

  app.addHook('preParsing', (request, reply, payload, done) => {
    if (!hasBody(request)) {
      done(null, payload);
      return;
    }
    const { raw } = request;
    const arrival = arrivals.begin(holderOf(request), () => {
      log.info({ path: request.routeOptions.url }, 'a body that arrives too slowly gives way to others');
      raw.destroy();
    });
    const count = (chunk: Buffer): void => {
      const error = arrival.add(chunk.length);
      if (error === undefined) return;
      payload.off('data', count);
      reply.header('connection', 'close');
      // The reader of the body responds with it.
      if (payload.listenerCount('error') > 0) payload.emit('error', error);
      else raw.destroy();
    };
    payload.on('data', count);
    payload.once('end', () => arrival.isWhole());
    connections.whenOver(raw.socket, reply.raw, () => arrival.end());
    done(null, payload);
  });

  app.addHook('onSend', (request, reply, payload, done) => {
    request.endTurn?.();
    const bytes = sizeOf(payload);
    if (bytes <= UNCOUNTED_BYTES) {
      done(null, payload);
      return;
    }
    // Several responses may share the bytes of one text.
    const taken = budgets.responses.take(holderOf(request), bytes, Buffer.isBuffer(payload) ? payload : undefined);
    if (typeof taken === 'function') {
      connections.whenOver(request.raw.socket, reply.raw, taken);
      done(null, payload);
      return;
    }
    for (const header of OF_BODY) reply.removeHeader(header);
    done(budgets.responses.refusal(taken, bytes));
  });
}

/** Bytes of a response that is sent at once; streams bound themselves. */
function sizeOf(payload: unknown): number {
  return typeof payload === 'string' || Buffer.isBuffer(payload) ? payload.length : 0;
}
