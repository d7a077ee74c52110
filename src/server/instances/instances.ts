import { hostname } from 'node:os';
import { failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import type { InstancesAnswer, MinutePoint } from '../../wire/fleet-views.js';
import type { UpdateLog } from '../log/update-log.js';
import { createClockWatch } from './clock-watch.js';
import type { Hour } from './hour.js';
import { printHour, readHour } from './hour-text.js';
import { type AnnouncedInstance, createInstanceList, type InstanceList } from './instance-list.js';
import { LoopDelay } from './loop-delay.js';
import { SettledHead } from './settled-head.js';
import { ownVitals, type Vitals } from './vitals.js';

export interface InstancesDeps {
  /** Id of this instance, new on each start. */
  readonly instance: string;
  readonly version: string;
  readonly log: Pick<UpdateLog, 'head' | 'status' | 'writes' | 'roundTripMs' | 'onRecord' | 'clockAheadMs'>;
  /** Connected clients of this instance. */
  readonly clients: () => number;
  readonly isDraining: () => boolean;
  /** State of the policy source. */
  readonly source: () => string;
  /** What happened here; the measured parts tell it. */
  readonly hour: Hour;
  readonly logger: Pick<Logger, 'warn' | 'info'>;
}

/** How this instance is, for itself and in its announcements, and the list of all of them. */
export interface Instances extends Pick<InstanceList, 'list'> {
  /** The last hour of each instance, in the order of {@link InstanceList.list}. */
  hours(views: readonly AnnouncedInstance[]): InstancesAnswer['hours'];
  /** For the announcement of this instance. */
  readonly vitals: () => Vitals;
  /** A timer of the server that fires all the time did so now, this much too late, in milliseconds. */
  readonly onLate: (lateMs: number) => void;
  /** Ends what it listens to. */
  readonly close: () => void;
}

/** Clients are counted at most so often. */
const SAMPLE_EVERY_MS = 1000;
const MINUTE_MS = 60_000;

/** The minutes of another instance by our clock, as close as whole minutes can be. */
function hourByOurClock(
  vitals: Vitals | undefined,
  { clockAheadMs: ours }: { clockAheadMs?: number | undefined },
): MinutePoint[] {
  const theirs = vitals?.clockAheadMs;
  const by = theirs === undefined || ours === undefined ? 0 : Math.round((theirs - ours) / MINUTE_MS) * MINUTE_MS;
  return readHour(vitals?.hour ?? '').map((point) => ({ ...point, at: point.at + by }));
}

/** Creates {@link Instances}. Has no timer: what it knows comes from parts that run anyway. */
export function createInstances(deps: InstancesDeps): Instances {
  const { instance, version, log, clients, isDraining, source, hour } = deps;
  const loop = new LoopDelay(Date.now);
  const settled = new SettledHead(log.head, Date.now);
  const unsubscribe = log.onRecord(({ seq }) => settled.reached(seq));
  const about = { name: hostname(), version, startedMs: Date.now() };
  let ended = { minute: 0, text: '' };
  const endedText = (): string => {
    if (ended.minute !== hour.minute) ended = { minute: hour.minute, text: printHour(hour.ended()) };
    return ended.text;
  };
  let sampledMs = 0;
  const lookAtClock = createClockWatch({
    differs: (error) =>
      deps.logger.warn(failureFields(error), 'the clock of this server is wrong, or that of the backbone'),
    agrees: () => deps.logger.info({}, 'the clocks of this server and of the backbone agree again'),
  });
  const onLate = (lateMs: number): void => {
    const nowMs = Date.now();
    loop.sampled(lateMs);
    if (nowMs - sampledMs < SAMPLE_EVERY_MS) return;
    sampledMs = nowMs;
    lookAtClock(log.clockAheadMs);
    hour.sampled({ clients: clients(), backboneMs: log.roundTripMs });
  };
  const vitals = (): Vitals =>
    ownVitals({
      ...about,
      memory: () => process.memoryUsage.rss(),
      loopMs: () => loop.worstMs,
      isUp: () => log.status.up,
      isWritable: () => log.writes.ok,
      backboneMs: () => log.roundTripMs,
      ...{ isDraining, source },
      clockAheadMs: () => log.clockAheadMs,
      hour: endedText,
    });
  const instances = createInstanceList({
    ...{ instance, vitals, log, clients },
    settled: () => settled.seq,
    now: Date.now,
    elapsed: () => performance.now(),
  });
  return {
    list: instances.list,
    hours: (views) =>
      instances.list(views).map(({ instance: id, name, here }) => ({
        instance: id,
        name,
        points: here ? hour.points() : hourByOurClock(instances.vitalsOf(id), log),
      })),
    ...{ vitals, onLate, close: unsubscribe },
  };
}
