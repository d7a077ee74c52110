import * as z from 'zod';
import { instant } from '../../wire/instant.js';

/** What a server instance says of itself in its announcement. Members may be added: older versions ignore them. */

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
  /** Whether it reaches the backbone. It says so too late when it does not: see the rules of states. */
  isUp: z.boolean(),
  /** Whether the log takes updates. Missing: it is of an older version. */
  isWritable: z.boolean().optional(),
  backboneMs: z.number().nullable(),
  isDraining: z.boolean(),
  source: z.string().max(32),
  /** How far the clock of the update log is ahead of its own, in milliseconds. Missing: it does not know. */
  clockAheadMs: instant.optional(),
  /** Its last hour without the current minute (`hour-text.ts`). Read only when somebody asks for it. */
  hour: z.string().max(MAX_HOUR_CHARS).optional(),
});
export type Vitals = z.infer<typeof vitalsText>;

/** Where the vitals of this instance come from. Each is cheap: they are read for each announcement. */
export interface VitalsDeps {
  /** Host name. */
  readonly name: string;
  readonly version: string;
  readonly startedMs: number;
  readonly memory: () => number;
  readonly loopMs: () => number | null;
  readonly isUp: () => boolean;
  readonly isWritable: () => boolean;
  /** Undefined: there is no backbone, or it is not known yet. */
  readonly backboneMs: () => number | undefined;
  readonly isDraining: () => boolean;
  /** State of the policy source. */
  readonly source: () => string;
  /** {@link UpdateLog.clockAheadMs}. */
  readonly clockAheadMs?: (() => number | undefined) | undefined;
  readonly hour?: (() => string) | undefined;
}

/** The vitals of this instance now. */
export function ownVitals(deps: VitalsDeps): Vitals {
  const { name, version, startedMs } = deps;
  const backboneMs = deps.backboneMs();
  const clockAheadMs = deps.clockAheadMs?.();
  return {
    ...{ name, version, startedMs },
    memory: deps.memory(),
    loopMs: deps.loopMs(),
    isUp: deps.isUp(),
    isWritable: deps.isWritable(),
    backboneMs: backboneMs === undefined ? null : Math.round(backboneMs * 10) / 10,
    isDraining: deps.isDraining(),
    source: deps.source(),
    ...(clockAheadMs !== undefined && { clockAheadMs }),
    ...(deps.hour !== undefined && { hour: deps.hour() }),
  };
}
