import { compileFunction } from 'node:vm';
import { parseJson } from '../../lib/json/json.js';
import type { GoProgram } from '../artifact.js';
import { WorkerFailure } from '../types.js';
import type { GoHost, HostRequest } from './go-host.js';

/**
 * Calls that the Go program offers (engine/engine.go). The last argument of each gets the result;
 * callBuiltin returns it.
 */
export interface GoCalls {
  readonly opaVersion: string;
  callBuiltin(name: string, args: string, isFresh: boolean): string;
  readonly [name: string]: unknown;
}

/** A running Go program. */
export interface RunningProgram {
  readonly calls: GoCalls;
  readonly memory: WebAssembly.Memory;
  /** Resolves when the program has ended, with what the calls under way reject with. */
  readonly ended: Promise<WorkerFailure>;
  /**
   * Runs a call into the program. Whatever it throws has left the program's stack in pieces: it
   * ends.
   */
  enter<T>(call: () => T): T;
}

/** Called by Go with an error text, or null and the head and body of a response. */
type Fetched = (error: string | null, head?: string, body?: Uint8Array) => void;

/** The part of Go's class of `wasm_exec.js` that is used here. */
interface GoRuntime {
  env: Readonly<Record<string, string>>;
  argv: readonly string[];
  exit: (code: number) => void;
  readonly importObject: WebAssembly.Imports;
  run(instance: WebAssembly.Instance): Promise<void>;
}

/** The globals that Go sees. */
interface GoWorld {
  Go?: new () => GoRuntime;
  [name: string]: unknown;
}

/** What Go printed last is the reason of its end; it is cut to this many characters. */
const KEPT_OUTPUT = 4000;
/**
 * What Go's runtime says of its end begins with the reason; what follows are the stacks of all that
 * ran.
 */
const KEPT_FATAL = 300;

/**
 * Starts OPA's Go code. It sees a world of its own instead of the globals: no files, no network, no
 * environment, no process. Rejects with a {@link WorkerFailure} if it ends before it is ready.
 */
export async function runGoProgram(
  program: GoProgram,
  options: { host?: GoHost | undefined; memoryLimitBytes?: number | undefined },
): Promise<RunningProgram> {
  let output = '';
  let fatal = '';
  let end: (failure: WorkerFailure) => void = () => undefined;
  const ended = new Promise<WorkerFailure>((resolve) => {
    end = resolve;
  });
  const print = (...texts: unknown[]): void => {
    output = `${output}${texts.join(' ')}\n`.slice(-KEPT_OUTPUT);
  };
  const decoder = new TextDecoder();
  /** Where Go's runtime writes, which knows no other file. */
  const fs = {
    writeSync: (_fd: number, bytes: Uint8Array): void => {
      if (fatal.length < KEPT_FATAL) fatal = (fatal + decoder.decode(bytes)).slice(0, KEPT_FATAL);
    },
  };
  const last = (): string => (fatal === '' ? output : fatal).trim();
  function enter<T>(call: () => T): T {
    try {
      return call();
    } catch (cause) {
      const failure = crashOf(cause);
      end(failure);
      throw failure;
    }
  }
  /** As {@link enter}, for calls that nobody waits for. */
  function wake(call: () => void): void {
    try {
      enter(call);
    } catch (error) {
      if (!(error instanceof WorkerFailure)) throw error; // `ended` has the reason
    }
  }

  let ready: (calls: GoCalls) => void = () => undefined;
  const started = new Promise<GoCalls>((resolve) => {
    ready = resolve;
  });
  const { host } = options;
  const world: GoWorld = {
    ...{ Object, Array, Uint8Array, Date, TextEncoder, TextDecoder, crypto, performance },
    engineHost: {
      ready: (calls: GoCalls) => ready(calls),
      turn: (back: () => void) => setImmediate(() => wake(back)),
      ...(host === undefined ? {} : { fetch: fetchThrough(host, wake) }),
    },
  };
  const timer = (run: () => void, ms: number) => setTimeout(() => wake(run), ms);
  compileFunction(program.exec, ['globalThis', 'setTimeout', 'console', 'fs'], { filename: 'wasm_exec.js' })(
    ...[world, timer, { log: print, warn: print, error: print }, fs],
  );
  if (world.Go === undefined) throw new WorkerFailure('ended', 'wasm_exec.js of the embedded engine defines no Go');
  const go = new world.Go();
  go.argv = ['opa'];
  go.env = goEnv(options.memoryLimitBytes);
  go.exit = (code) => end(new WorkerFailure('ended', `OPA's Go code ended with code ${code}: ${last()}`));
  const instance = await WebAssembly.instantiate(program.module, go.importObject);
  go.run(instance).then(
    () => end(new WorkerFailure('ended', `OPA's Go code ended: ${last()}`)),
    (cause) => end(crashOf(cause)),
  );
  const calls = await new Promise<GoCalls>((resolve, reject) => {
    void started.then(resolve);
    void ended.then(reject);
  });
  return { calls, memory: instance.exports.mem as WebAssembly.Memory, ended, enter };
}

/** The end of a program whose stack is in pieces. */
function crashOf(cause: unknown): WorkerFailure {
  const what = cause instanceof Error ? cause.message : String(cause);
  return new WorkerFailure('ended', `OPA's Go code crashed: ${what}`, { cause, isCrash: true });
}

/** Go collects its memory before it comes near the limit, at which the thread would be ended. */
function goEnv(memoryLimitBytes: number | undefined): Record<string, string> {
  return memoryLimitBytes === undefined ? {} : { ENGINE_MEMORY_LIMIT: String(Math.floor(memoryLimitBytes * 0.8)) };
}

/**
 * `fetch` as Go calls it: returns a function that gives the request up, after which `done` is not
 * called any more.
 */
function fetchThrough(host: GoHost, wake: (call: () => void) => void) {
  return (head: string, body: Uint8Array, done: Fetched): (() => void) => {
    const giveUp = new AbortController();
    const answer = (...result: Parameters<Fetched>): void => {
      if (!giveUp.signal.aborted) wake(() => done(...result));
    };
    const request = { ...(parseJson(head) as Omit<HostRequest, 'body'>), body };
    host.fetch(request, giveUp.signal).then(
      (response) => {
        const { status, headers } = response;
        answer(null, JSON.stringify({ status, headers }), response.body);
      },
      (error: unknown) => answer(error instanceof Error ? error.message : String(error)),
    );
    return () => giveUp.abort();
  };
}
