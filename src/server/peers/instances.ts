import { hostname } from 'node:os';
import { failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import type { FleetInstance } from '../../wire/fleet.js';
import type { InstancesAnswer, MinutePoint } from '../../wire/fleet-views.js';
import type { LogEvents, LogHealth } from '../log/update-log.js';
import { createClockWatch } from './clock-watch.js';
import { type Hour, printHour, readHour } from './hour.js';
import { type AnnouncedInstance, InstanceList } from './instance-list.js';
import { SETTLED_AFTER_MS } from './instance-rules.js';
import type { Vitals } from './vitals.js';

interface InstancesDeps {
  /** Id of this instance, new on each start. */
  readonly instance: string;
  readonly version: string;
  readonly log: LogHealth & LogEvents;
  /** Connected clients of this instance. */
  readonly clients: () => number;
  readonly isDraining: () => boolean;
  /** State of the policy source. */
  readonly source: () => string;
  /** What happened here; the measured parts tell it. */
  readonly hour: Hour;
  readonly logger: Pick<Logger, 'warn' | 'info'>;
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

/**
 * How this instance is, for itself and in its announcements, and the list of all of them. Has no
 * timer: what it knows comes from parts that run anyway.
 */
export class Instances {
  readonly #deps: InstancesDeps;
  readonly #loop = new LoopDelay(Date.now);
  readonly #about = { name: hostname(), startedMs: Date.now() };
  readonly #list: InstanceList;
  readonly #lookAtClock: ReturnType<typeof createClockWatch>;
  readonly #unsubscribe: () => void;
  #sampledMs = 0;
  /** The minutes that have ended by the current one, printed. */
  #ended = { minute: 0, text: '' };

  constructor(deps: InstancesDeps) {
    this.#deps = deps;
    const { instance, log, clients, logger } = deps;
    const settled = new SettledHead(log.head, Date.now);
    this.#unsubscribe = log.onRecord(({ seq }) => settled.reached(seq));
    this.#lookAtClock = createClockWatch({
      differs: (error) =>
        logger.warn(failureFields(error), 'the clock of this server is wrong, or that of the backbone'),
      agrees: () => logger.info({}, 'the clocks of this server and of the backbone agree again'),
    });
    this.#list = new InstanceList({
      ...{ instance, vitals: () => this.vitals(), log, clients },
      settled: () => settled.seq,
      now: Date.now,
      elapsed: () => performance.now(),
    });
  }

  /** See {@link InstanceList.list}. */
  list(views: readonly AnnouncedInstance[]): FleetInstance[] {
    return this.#list.list(views);
  }

  /** The last hour of each instance, in the order of {@link list}. */
  hours(views: readonly AnnouncedInstance[]): InstancesAnswer['hours'] {
    const { hour, log } = this.#deps;
    return this.list(views).map(({ instance, name, here }) => {
      const points = here ? hour.points() : hourByOurClock(this.#list.vitalsOf(instance), log);
      return { instance, name, points };
    });
  }

  /** For the announcement of this instance. */
  vitals(): Vitals {
    const { version, log, isDraining, source } = this.#deps;
    const { roundTripMs, clockAheadMs } = log;
    return {
      ...{ ...this.#about, version },
      memory: process.memoryUsage.rss(),
      loopMs: this.#loop.worstMs,
      isUp: log.status.up,
      isWritable: log.writes.ok,
      backboneMs: roundTripMs === undefined ? null : Math.round(roundTripMs * 10) / 10,
      isDraining: isDraining(),
      source: source(),
      ...(clockAheadMs !== undefined && { clockAheadMs }),
      hour: this.#endedHour(),
    };
  }

  /** A timer that fires all the time did so now, this much too late, in milliseconds. */
  onLate(lateMs: number): void {
    const { log, hour, clients } = this.#deps;
    const nowMs = Date.now();
    this.#loop.sampled(lateMs);
    if (nowMs - this.#sampledMs < SAMPLE_EVERY_MS) return;
    this.#sampledMs = nowMs;
    this.#lookAtClock(log.clockAheadMs);
    hour.sampled({ clients: clients(), backboneMs: log.roundTripMs });
  }

  /** Ends what it listens to. */
  close(): void {
    this.#unsubscribe();
  }

  #endedHour(): string {
    const { hour } = this.#deps;
    if (this.#ended.minute !== hour.minute) this.#ended = { minute: hour.minute, text: printHour(hour.ended()) };
    return this.#ended.text;
  }
}

/** Samples of a minute at the shortest interval that is of use. */
const SAMPLES = 64;

/**
 * How late the event loop was, as samples of a timer that exists anyway: a monitor of its own would
 * wake an idle server a hundred times a second. Fixed room.
 */
export class LoopDelay {
  readonly #now: () => number;
  readonly #atMs = new Float64Array(SAMPLES);
  readonly #lateMs = new Float64Array(SAMPLES);
  #count = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** A timer fired this much too late. */
  sampled(lateMs: number): void {
    const at = this.#count++ % SAMPLES;
    this.#atMs[at] = this.#now();
    this.#lateMs[at] = Math.max(0, lateMs);
  }

  /** The worst sample of the last minute in milliseconds; null: there is none. */
  get worstMs(): number | null {
    const since = this.#now() - MINUTE_MS;
    let worst: number | null = null;
    for (let at = 0; at < Math.min(this.#count, SAMPLES); at++) {
      const lateMs = this.#lateMs[at] ?? 0;
      if ((this.#atMs[at] ?? 0) >= since && lateMs > (worst ?? -1)) worst = lateMs;
    }
    return worst === null ? null : Math.round(worst * 10) / 10;
  }
}

/** Minimum time between two notes that are kept. */
const EVERY_MS = 1000;
const KEPT = 8;

interface Note {
  readonly atMs: number;
  readonly seq: number;
}

/**
 * How far the log was a few seconds ago: what an instance has not seen of that, it is behind. The
 * newest rows prove nothing, since announcements are older than these.
 */
export class SettledHead {
  readonly #now: () => number;
  /** The oldest first. */
  readonly #notes: Note[] = [];
  #last: Note;

  /** `head`: of the log at the start. */
  constructor(head: number, now: () => number) {
    this.#now = now;
    this.#last = { atMs: now(), seq: head };
  }

  /** The log has reached `seq`. */
  reached(seq: number): void {
    const note = { atMs: this.#now(), seq };
    const isDue = this.#last.atMs - (this.#notes.at(-1)?.atMs ?? 0) >= EVERY_MS;
    if (isDue && this.#notes.push(this.#last) > KEPT) this.#notes.shift();
    this.#last = note;
  }

  /** A position that every instance has seen by now, unless it is behind. */
  get seq(): number {
    const before = this.#now() - SETTLED_AFTER_MS;
    if (this.#last.atMs <= before) return this.#last.seq;
    return this.#notes.findLast(({ atMs }) => atMs <= before)?.seq ?? 0;
  }
}
