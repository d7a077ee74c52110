import { setTimeout as sleep } from 'node:timers/promises';
import { ERROR_CODES, type ErrorCode, SyncError } from '../../lib/errors.js';
import { serverAddress } from '../../lib/net/server-address.js';
import { redactUrl } from '../../lib/observe/log.js';
import { openServerStream, type ServerStream } from '../kit/server-fetch.js';
import type { ServerTarget } from '../kit/server-target.js';
import { wrapped } from '../kit/text.js';
import { serverEvents } from './event-reader.js';
import { endOf, type FleetState, nextState } from './fleet-state.js';
import { type LivePage, liveLines, titleLine } from './live-lines.js';
import { type Style, styleOf } from './paint.js';
import { type Output, untilStopped } from './repeat.js';
import { ENTER, LEAVE, screenFrame } from './screen.js';

/** The server sends a comment every 15 s: a stream that is silent for longer is dead. */
const SILENCE_MS = 40_000;
/** Time before coming back, if the server says none. */
const RETRY_MS = 2000;
/** Times are drawn anew. */
const TICK_MS = 1000;
/** Size of a terminal that does not say. */
const SIZE = { columns: 80, rows: 24 };
/** Failures that pass. */
const PASSING: ReadonlySet<string> = new Set<ErrorCode>(['server_unreachable', 'too_many_watchers']);

export interface WatchOptions {
  readonly target: ServerTarget;
  readonly env: NodeJS.ProcessEnv;
  readonly output: Output;
  /** Throws if a condition is met that the command was asked for. */
  judge(state: FleetState): void;
}

/**
 * Shows the fleet on a terminal as the server streams it, until it is stopped. Resolves with false,
 * and has shown nothing, if the server is of a version without the stream. Rejects when the fleet
 * is judged so, or when the server refuses.
 */
export async function watchFleet(options: WatchOptions): Promise<boolean> {
  const { output, target } = options;
  const first = await firstStream(options);
  if (first === undefined) return false;
  const screen = new Screen(output, styleOf(options.env), redactUrl(target.url));
  try {
    await untilStopped((signal) => follow(options, { first, screen, signal }), output);
  } finally {
    await first.stream?.close();
    screen.end();
  }
  return true;
}

/** A stream, or why there is none now. Undefined: there will never be one. */
interface Opened {
  readonly stream: ServerStream | undefined;
  readonly problem: SyncError | undefined;
}

async function firstStream(options: WatchOptions): Promise<Opened | undefined> {
  return await open(options, undefined, new AbortController().signal);
}

async function open(
  { target, env }: WatchOptions,
  lastEventId: string | undefined,
  signal: AbortSignal,
): Promise<Opened | undefined> {
  const { token } = target;
  const headers = { accept: 'text/event-stream', ...(lastEventId !== undefined && { 'last-event-id': lastEventId }) };
  const url = serverAddress(target.url, '/ui/events');
  try {
    const request = { url, token, headers, silenceMs: SILENCE_MS, signal };
    const stream = await openServerStream(request, { code: 'server_refused' }, env);
    return stream === undefined ? undefined : { stream, problem: undefined };
  } catch (error) {
    if (error instanceof SyncError && PASSING.has(error.code)) return { stream: undefined, problem: error };
    throw error;
  }
}

/** Reads one stream after the other until the signal aborts. */
async function follow(
  options: WatchOptions,
  { first, screen, signal }: { first: Opened; screen: Screen; signal: AbortSignal },
): Promise<void> {
  let state: FleetState | undefined;
  let lastEventId: string | undefined;
  let retryMs = RETRY_MS;
  for (let next: Opened = first; !signal.aborted; ) {
    if (next.problem !== undefined) screen.lost(next.problem);
    if (next.stream !== undefined) {
      try {
        for await (const event of serverEvents(next.stream.chunks, (ms) => (retryMs = ms))) {
          if (signal.aborted) return;
          if (endOf(event) !== undefined) break;
          lastEventId = event.id ?? lastEventId;
          state = nextState(state, event);
          if (state === undefined) continue;
          screen.next(state);
          options.judge(state);
        }
      } catch (error) {
        if (!isCut(error)) throw error;
      } finally {
        await next.stream.close();
      }
      if (signal.aborted) return;
      screen.lost(undefined);
    }
    await sleep(retryMs, undefined, { signal }).catch(() => undefined); // stopped: the loop ends
    if (signal.aborted) return;
    const opened = await open(options, lastEventId, signal);
    if (opened === undefined) throw new SyncError('server_refused', 'the server has no stream of the fleet any more');
    next = opened;
  }
}

/** Whether the connection was lost: undici and Node have codes for that. */
function isCut(error: unknown): boolean {
  return error instanceof Error && 'code' in error && !(error instanceof SyncError);
}

/** The screen of a terminal; what it showed last stays behind on the ordinary one. */
class Screen {
  readonly #output: Output;
  readonly #style: Style;
  readonly #address: string;
  readonly #tick: NodeJS.Timeout;
  readonly #draw = (): void => this.#drawNow();
  #state: FleetState | undefined;
  /** When the last event came, by our clock. */
  #heardMs = Date.now();
  /** When the stream was lost, by the clock of the server. */
  #lostAt: number | null = null;
  #problem: SyncError | undefined;

  constructor(output: Output, style: Style, address: string) {
    this.#output = output;
    this.#style = style;
    this.#address = address;
    output.write(ENTER);
    output.on('resize', this.#draw);
    this.#tick = setInterval(this.#draw, TICK_MS);
  }

  next(state: FleetState): void {
    this.#state = state;
    this.#heardMs = Date.now();
    this.#lostAt = null;
    this.#problem = undefined;
    this.#drawNow();
  }

  lost(problem: SyncError | undefined): void {
    this.#lostAt ??= this.#serverNow();
    this.#problem = problem;
    this.#drawNow();
  }

  end(): void {
    clearInterval(this.#tick);
    this.#output.off('resize', this.#draw);
    this.#output.write(LEAVE);
    const lines = this.#lines();
    if (lines.length > 0) this.#output.write(`${lines.join('\n')}\n`);
  }

  #serverNow(): number {
    return (this.#state?.fleet.at ?? Date.now()) + Date.now() - this.#heardMs;
  }

  #page(): LivePage {
    const { columns = 0, rows = 0 } = this.#output;
    return {
      width: columns > 0 ? columns : SIZE.columns,
      height: (rows > 0 ? rows : SIZE.rows) - 2, // the title
      style: this.#style,
      nowMs: this.#lostAt ?? this.#serverNow(),
      pastAt: this.#lostAt,
    };
  }

  #lines(): string[] {
    const page = this.#page();
    if (this.#state !== undefined) return liveLines(this.#state, page);
    if (this.#problem === undefined) return [];
    const { code, message } = this.#problem;
    return [message, `What to do: ${ERROR_CODES[code].remedy} [${code}]`].flatMap((line) =>
      wrapped(line, page.width, '  '),
    );
  }

  #drawNow(): void {
    const page = this.#page();
    const title =
      this.#state === undefined
        ? `Asking ${this.#address}; Ctrl-C ends.`.slice(0, page.width)
        : titleLine(this.#address, page, this.#state.fleet.environment);
    this.#output.write(screenFrame([title, '', ...this.#lines()], page.height + 2));
  }
}
