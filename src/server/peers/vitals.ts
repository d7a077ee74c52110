import * as z from 'zod';
import { instant } from '../../wire/instant.js';

/** What an instance says of itself in its announcement. Others ignore unknown members. */

/** Longest text of an hour: 60 minutes of 17 numbers take about 4,000 characters. */
const MAX_HOUR_CHARS = 32_768;

export const vitalsText = z.object({
  name: z.string().max(256),
  version: z.string().max(64),
  startedMs: instant,
  /** Resident memory in bytes. */
  memory: z.number(),
  /** Worst sample of the event loop delay in the last minute, in milliseconds; null: none yet. */
  loopMs: z.number().nullable(),
  /** Whether it reaches the backbone. Told too late when it does not: see the rules of states. */
  isUp: z.boolean(),
  /** Whether the log takes updates. Missing: it is of an older version. */
  isWritable: z.boolean().optional(),
  backboneMs: z.number().nullable(),
  isDraining: z.boolean(),
  source: z.string().max(32),
  /** How far the clock of the log is ahead of its own, in milliseconds. Missing: unknown. */
  clockAheadMs: instant.optional(),
  /** Its last hour without the current minute (`printHour`). Read only on demand. */
  hour: z.string().max(MAX_HOUR_CHARS).optional(),
});
export type Vitals = z.infer<typeof vitalsText>;
