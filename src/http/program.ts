import type { FastifyInstance } from 'fastify';
import type { Logger } from '../lib/observe/log.js';
import { isAbort } from '../lib/run/async.js';
import { createProgram, type Parts, type Program } from '../lib/run/lifecycle.js';
import type { DeclaredRoute } from './declared-route.js';

/** Where an API listens. */
export interface ListenAddress {
  readonly url: string;
  readonly port: number;
}

/** An API that listens; `address` is undefined for one that does not. */
export interface Listening<A = ListenAddress> {
  readonly app: FastifyInstance;
  readonly address: A;
  /** What happens before a graceful stop; rejects when the signal aborts. */
  drain(signal: AbortSignal): Promise<void>;
}

/** A program with an HTTP API. */
export interface HttpProgram<A> extends Program<A> {
  /**
   * Prepares a stop without a failure for anyone: readiness is false at once, callers and load
   * balancers get the time to notice, and subscribers are sent away. Resolves when it is time for
   * {@link Program.stop}, which also cuts it short. Does nothing before the start. Idempotent.
   */
  drain(): Promise<void>;
  readonly routes: readonly DeclaredRoute[];
}

/**
 * Makes a program whose parts have an HTTP API; see {@link createProgram}. Its `routes` are empty
 * before the start.
 */
export function createHttpProgram<A>(
  name: string,
  compose: (parts: Parts) => Promise<Listening<A>>,
  log: Logger,
): HttpProgram<A> {
  let routes: readonly DeclaredRoute[] = [];
  let drain = async (): Promise<void> => undefined;
  let draining: Promise<void> | undefined;
  const start = async (parts: Parts): Promise<A> => {
    const listening = await compose(parts);
    routes = listening.app.declaredRoutes;
    drain = async () => {
      try {
        await listening.drain(parts.signal);
      } catch (error) {
        if (!isAbort(error, parts.signal)) throw error;
      }
    };
    return listening.address;
  };
  return {
    ...createProgram(name, start, log),
    drain: () => {
      draining ??= drain();
      return draining;
    },
    get routes() {
      return routes;
    },
  };
}
