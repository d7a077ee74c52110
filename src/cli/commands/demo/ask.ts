import { parseJson } from '../../../lib/json/json.js';
import { sleep, withAnySignal } from '../../../lib/run/async.js';
import { DemoFailure } from './failure.js';
import type { DemoProcess } from './processes.js';

/** Longest wait for one answer of a program on this machine. */
const ANSWER_MS = 5_000;
const LOOK_EVERY_MS = 50;

/** An answer in JSON. */
export interface JsonAnswer {
  readonly status: number;
  readonly json: unknown;
}

/**
 * Asks for JSON: a POST where there is a body. Answers undefined where nobody answers, or not with
 * JSON.
 */
export async function askJson(url: string, signal: AbortSignal, body?: unknown): Promise<JsonAnswer | undefined> {
  try {
    const ask = async (within: AbortSignal): Promise<JsonAnswer> => {
      const response = await fetch(url, {
        signal: within,
        ...(body === undefined
          ? {}
          : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
      });
      return { status: response.status, json: parseJson(await response.text()) };
    };
    return await withAnySignal([signal], ask, ANSWER_MS);
  } catch {
    signal.throwIfAborted();
    return undefined; // not there (yet); whoever waits for it gives up at the time limit
  }
}

/** The value at a place inside an answer; undefined where there is none. */
export function valueAt(answer: JsonAnswer | undefined, ...place: readonly string[]): unknown {
  return place.reduce<unknown>(
    (at, key) => (typeof at === 'object' && at !== null ? (at as Record<string, unknown>)[key] : undefined),
    answer?.json,
  );
}

/** How {@link waitFor} waits. */
export interface WaitOptions {
  readonly signal: AbortSignal;
  readonly withinMs: number;
  readonly everyMs?: number;
  /** What is waited for, for a failure. */
  readonly what: string;
  /** The programs that have to run meanwhile. */
  readonly parts: readonly DemoProcess[];
}

/**
 * Looks until `look` answers something other than undefined, and answers that. Fails after
 * `withinMs`, or as soon as one of the parts has ended, with {@link PartEnded}.
 */
export async function waitFor<T>(look: () => Promise<T | undefined>, options: WaitOptions): Promise<T> {
  const { signal, withinMs, everyMs = LOOK_EVERY_MS, what, parts } = options;
  const deadline = performance.now() + withinMs;
  for (;;) {
    signal.throwIfAborted();
    const found = await look();
    if (found !== undefined) return found;
    const over = parts.find((part) => part.isOver());
    if (over !== undefined) throw new PartEnded(over, await over.ended);
    if (performance.now() > deadline) {
      throw new DemoFailure(
        `${what} did not happen within ${withinMs / 1000} s; the logs above say why. If this machine is very busy, try again`,
      );
    }
    await sleep(everyMs, signal);
  }
}

/** A started program is gone. */
export class PartEnded extends DemoFailure {
  constructor(part: DemoProcess, how: string) {
    super(`the ${part.name} is gone (${how}); its log above says why`);
  }
}
