import { createServer } from 'node:net';
import { type Agent, request } from 'undici';
import { errorText, SyncError } from '../../../lib/errors.js';
import type { OutgoingTls } from '../../../lib/net/tls.js';
import { sleep } from '../../../lib/run/async.js';
import { MARKER_PATH } from '../marker.js';
import { splitAddress } from './opa-args.js';
import { OpaRest } from './opa-rest.js';

/**
 * Maximum wait for the engine of a client that was killed. It exits by itself: it cannot fetch its
 * bundle any more, and logging to a closed pipe ends a Go program. Measured: 2 s.
 */
const ORPHAN_GRACE_MS = 8_000;
const ORPHAN_LOOK_MS = 100;
/**
 * Maximum wait for a program that holds the address and does not respond: it may be about to exit.
 */
const SILENT_GRACE_MS = 1_000;
const MARKER_TIMEOUT_MS = 1_000;

/** Throws `engine_address_in_use` when another program listens at the address. */
export async function assertFree(address: string): Promise<void> {
  const place = splitAddress(address);
  if (place === undefined || place.port === 0) return;
  const server = createServer();
  const error = await new Promise<NodeJS.ErrnoException | undefined>((resolve) => {
    server.once('error', resolve);
    // OPA uses the IPv4 address of localhost; Node uses the first one of the resolver.
    const host = place.host === 'localhost' ? '127.0.0.1' : place.host;
    server.listen({ port: place.port, exclusive: true, ...(host === undefined ? {} : { host }) }, () =>
      resolve(undefined),
    );
  });
  if (error === undefined) await new Promise<void>((resolve) => server.close(() => resolve()));
  // Other reasons (no such address, not allowed) are for OPA itself to report.
  if (error?.code === 'EADDRINUSE') throw addressInUse(address);
}

/**
 * {@link assertFree}, but waits for an engine that a killed client left behind, recognized by its
 * marker.
 */
export async function whenFree(
  address: string,
  { engineUrl, tls }: { engineUrl: string; tls?: OutgoingTls | undefined },
  signal: AbortSignal,
): Promise<void> {
  const startMs = performance.now();
  let graceMs = 0;
  // Without our token: another program must not receive it.
  const rest = new OpaRest({ url: engineUrl, timeoutMs: MARKER_TIMEOUT_MS, ...(tls === undefined ? {} : { tls }) });
  try {
    for (;;) {
      try {
        await assertFree(address);
        return;
      } catch (error) {
        if (graceMs < ORPHAN_GRACE_MS) graceMs = Math.max(graceMs, await graceOf(rest, signal));
        if (performance.now() - startMs >= graceMs) throw error;
      }
      await sleep(ORPHAN_LOOK_MS, signal);
    }
  } finally {
    await rest.close();
  }
}

/** Returns how long to wait for the program that holds the address. */
async function graceOf(rest: OpaRest, signal: AbortSignal): Promise<number> {
  try {
    return (await rest.getData(MARKER_PATH, signal)) === undefined ? 0 : ORPHAN_GRACE_MS;
  } catch (error) {
    signal.throwIfAborted();
    const code = error instanceof SyncError ? error.code : undefined;
    // A program that requires a token may be ours.
    if (code === 'engine_unauthorized') return ORPHAN_GRACE_MS;
    return code === 'engine_unreachable' ? SILENT_GRACE_MS : 0;
  }
}

/** The error for an address that another program listens at. */
export function addressInUse(address: string): SyncError {
  return new SyncError(
    'engine_address_in_use',
    `the engine cannot listen at ${address}: another program does. End it, or give the engine another address with SYNC_POLICY_STORE_URL`,
  );
}

/** Returns why the engine's health check fails; undefined if it succeeds. */
export async function healthProblem(
  engineUrl: string,
  dispatcher: Agent,
  anyAnswer: boolean,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const answer = await request(`${engineUrl}/health`, {
      dispatcher,
      signal,
      headersTimeout: 2_000,
      bodyTimeout: 2_000,
    });
    await answer.body.dump();
    // With authentication or authorization on, any response is sufficient.
    return answer.statusCode === 200 || anyAnswer ? undefined : `status ${answer.statusCode}`;
  } catch (error) {
    // The usual case while it starts; the caller retries.
    return errorText(error);
  }
}
