import type { GoProgram } from '../artifact.js';
import type { EngineProblem } from '../vocabulary.js';
import type { HostRequest, HostResponse } from './go-host.js';

/** Names of the calls that cross the thread. */
export type GoCallName =
  | 'parse'
  | 'check'
  | 'prepare'
  | 'commit'
  | 'abort'
  | 'write'
  | 'compile'
  | 'decide'
  | 'http'
  | 'query';

/** What the process starts with. */
export interface GoSetup {
  readonly memoryLimitBytes?: number | undefined;
  /** Whether the client sends requests of `http.send`. */
  readonly hasHost: boolean;
}

/** What the thread of the process starts with. */
export interface GoWorkerData extends GoSetup {
  readonly program: GoProgram;
}

/** Messages to the worker: a call, or the result of a fetch. */
export type ToGoWorker =
  | { readonly kind: 'call'; readonly id: number; readonly name: GoCallName; readonly args: readonly unknown[] }
  | { readonly kind: 'fetched'; readonly id: number; readonly response: HostResponse }
  | { readonly kind: 'fetchFailed'; readonly id: number; readonly message: string };

/** Messages of the worker. `ended` is told once for all calls; `isCrash`: see `WorkerFailure`. */
export type FromGoWorker =
  | { readonly kind: 'ready'; readonly version: string; readonly memoryBytes: number }
  | { readonly kind: 'ended'; readonly reason: string; readonly isCrash: boolean }
  | { readonly kind: 'result'; readonly id: number; readonly value: unknown; readonly memoryBytes: number }
  | {
      readonly kind: 'refused';
      readonly id: number;
      readonly message: string;
      readonly problems: readonly EngineProblem[];
      readonly memoryBytes: number;
    }
  | { readonly kind: 'fetch'; readonly id: number; readonly request: HostRequest }
  | { readonly kind: 'fetchAborted'; readonly id: number };

/** Messages of the process: those of its thread, and why there is none. */
export type FromGoChild = FromGoWorker | { readonly kind: 'unusable'; readonly message: string };
