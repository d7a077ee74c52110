import type { FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { type Caller, isLimited } from '../../auth/caller.js';
import { waitTimeout, whileCallerWaits } from '../../http/long-poll.js';
import type { DataUpdate } from '../../wire/data.js';
import type { WaitAnswer, Waiters } from '../sessions/waiters.js';

const DEFAULT_WAIT_MS = 5000;

/** Query of `POST /data/config`. */
export const publishQuery = z.object({
  wait: z.literal('applied').optional().describe('Answer when all clients concerned have applied the update'),
  timeout: waitTimeout.optional().describe('Longest wait: 5s (the default), 500ms, or seconds; at most 60s'),
});

/** What the answer of `POST /data/config?wait=applied` has beside the usual. */
export const waitAnswer = z.object({
  applied: z.number().describe('Clients that have applied it'),
  lagging: z
    .array(z.object({ client_id: z.string(), reason: z.string() }))
    .describe('Those that have not; at most 100'),
  lagging_count: z.number(),
  unknown: z.array(z.string()).describe('OPAL clients: they are concerned, and do not say what they hold'),
  incomplete: z.string().optional().describe('Why there may be more clients that are concerned'),
});

/** Waits for an update that was just published, as the query asks; sets 202 where the time was up or a client refuses it. */
export async function waitAsAsked(
  { wait, timeout = DEFAULT_WAIT_MS }: z.infer<typeof publishQuery>,
  { update, topics, seq }: { update: DataUpdate; topics: readonly string[]; seq: number },
  { caller, request, reply }: { caller: Caller; request: FastifyRequest; reply: FastifyReply },
  waiters: Pick<Waiters, 'waitApplied'> | undefined,
): Promise<Omit<WaitAnswer, 'done'> | undefined> {
  if (wait === undefined || waiters === undefined) return undefined;
  const paths = update.entries.map(({ dst_path }) => dst_path);
  const awaited = { seq, topics, paths, isLimited: isLimited(caller) };
  const { done, ...answer } = await whileCallerWaits(request, caller, (gone) =>
    waiters.waitApplied(awaited, timeout, gone),
  );
  if (!done) reply.code(202);
  return answer;
}
