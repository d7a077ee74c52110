import { createServer } from 'node:net';
import { type Agent, request } from 'undici';
import { errorText, SyncError } from '../../lib/errors.js';
import { sleep } from '../../lib/loop.js';
import type { OutgoingTls } from '../../lib/tls.js';
import { MARKER_PATH } from './marker.js';
import { splitAddress } from './opa-args.js';
import { OpaRest } from './opa-rest.js';

/**
 * Longest wait for the engine of a client that was killed. It cannot be ended from here, but it ends by itself: nobody
 * serves its bundle any more, and writing that to its log, which nobody reads, is the end of a Go program. Measured: 2 s.
 */
const ORPHAN_GRACE_MS = 8_000;
const ORPHAN_LOOK_MS = 100;
const MARKER_TIMEOUT_MS = 1_000;

/** Throws `engine_address_in_use` where another program would answer in the engine's place. */
export async function assertFree(address: string): Promise<void> {
  const place = splitAddress(address);
  if (place === undefined || place.port === 0) return;
  const server = createServer();
  const error = await new Promise<NodeJS.ErrnoException | undefined>((resolve) => {
    server.once('error', resolve);
    // OPA takes the IPv4 address of localhost; Node would take whichever the resolver names first.
    const host = place.host === 'localhost' ? '127.0.0.1' : place.host;
    server.listen({ port: place.port, exclusive: true, ...(host === undefined ? {} : { host }) }, () =>
      resolve(undefined),
    );
  });
  if (error === undefined) await new Promise<void>((resolve) => server.close(() => resolve()));
  // Other reasons (no such address, not allowed) are for OPA itself to report.
  if (error?.code === 'EADDRINUSE') throw addressInUse(address);
}

/** {@link assertFree}, with patience for an engine that a client of ours has left behind: it has our marker. */
export async function whenFree(
  address: string,
  { engineUrl, tls }: { engineUrl: string; tls?: OutgoingTls | undefined },
  signal: AbortSignal,
): Promise<void> {
  const deadline = performance.now() + ORPHAN_GRACE_MS;
  // Without our token: another program is not to have it.
  const rest = new OpaRest({ url: engineUrl, timeoutMs: MARKER_TIMEOUT_MS, ...(tls === undefined ? {} : { tls }) });
  try {
    for (let isOrphan = false; ; ) {
      try {
        await assertFree(address);
        return;
      } catch (error) {
        isOrphan ||= await hasMarker(rest, signal);
        if (!isOrphan || performance.now() > deadline) throw error;
      }
      await sleep(ORPHAN_LOOK_MS, signal);
    }
  } finally {
    await rest.close();
  }
}

async function hasMarker(rest: OpaRest, signal: AbortSignal): Promise<boolean> {
  try {
    return (await rest.getData(MARKER_PATH, signal)) !== undefined;
  } catch (error) {
    signal.throwIfAborted();
    // One that wants a token may be ours. All others are no OPA, or do not talk to us: another program.
    return error instanceof SyncError && error.code === 'engine_unauthorized';
  }
}

/** The error for an address that another program listens at. */
export function addressInUse(address: string): SyncError {
  return new SyncError(
    'engine_address_in_use',
    `the engine cannot listen at ${address}: another program does. End it, or give the engine another address with SYNC_POLICY_STORE_URL`,
  );
}

/** Why the engine does not answer its health request; undefined when it does. */
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
    // With authentication or authorization on, a refusal is an answer too.
    return answer.statusCode === 200 || anyAnswer ? undefined : `status ${answer.statusCode}`;
  } catch (error) {
    // Not an answer yet, the usual case while it starts; the caller looks again.
    return errorText(error);
  }
}
