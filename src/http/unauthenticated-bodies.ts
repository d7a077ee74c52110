import type { FastifyInstance, FastifyRequest } from 'fastify';
import { SyncError } from '../lib/errors.js';
import type { Logger } from '../lib/log.js';
import type { AddressLimits } from './address-limits.js';

/** Longest time for the body of an unauthenticated caller: 5 MiB at 250 KiB/s. */
export const UNAUTHENTICATED_BODY_TIMEOUT_MS = 20_000;

/** Limits of bodies of unauthenticated callers. */
export interface UnauthenticatedBodyOptions {
  readonly limits: AddressLimits;
  /** Default {@link UNAUTHENTICATED_BODY_TIMEOUT_MS}. */
  readonly timeoutMs?: number;
}

/**
 * Limits the bodies of routes without a token (a webhook that authenticates by its signature needs its body first): each address has a
 * number of bytes at one time, and a body has less time to arrive than that of an authenticated caller. A body of unknown length counts
 * as the longest.
 */
export function useUnauthenticatedBodyLimits(
  app: FastifyInstance,
  { limits, timeoutMs = UNAUTHENTICATED_BODY_TIMEOUT_MS }: UnauthenticatedBodyOptions,
  log: Logger,
): void {
  app.addHook('preParsing', (request, reply, payload, done) => {
    if (request.routeOptions.config.access !== 'everyone' || !hasBody(request)) {
      done(null, payload);
      return;
    }
    let release: () => void;
    try {
      release = limits.takeBytes(request.raw, announced(request));
    } catch (error) {
      done(error as SyncError);
      return;
    }
    const timer = setTimeout(() => {
      log.info(
        { path: request.routeOptions.url },
        'the body of an unauthenticated caller took too long: its connection is closed',
      );
      request.raw.destroy(new SyncError('address_limit', `the body did not arrive within ${timeoutMs / 1000} s`));
    }, timeoutMs);
    payload.once('end', () => clearTimeout(timer));
    reply.raw.once('close', () => {
      clearTimeout(timer);
      release();
    });
    done(null, payload);
  });
}

function hasBody({ headers }: FastifyRequest): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/** Largest size that a body can have. */
function announced({ headers, routeOptions }: FastifyRequest): number {
  const limit = routeOptions.bodyLimit;
  const length = headers['content-length'];
  return length === undefined ? limit : Math.min(Number(length), limit);
}
