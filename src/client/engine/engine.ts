import type { DocPath } from '../../wire/doc-path.js';

/** The one seam between the client and a policy engine. OPA over REST is the first implementation. */

/** A document's bytes: in memory, or in a spool file. `hash` is the hex SHA-256 of the bytes. */
export interface Body {
  readonly hash: string;
  readonly sizeBytes: number;
  /** The whole text. Reads the file when the body is spooled: used only where documents overlap. */
  text(): string;
  /** The bytes, for one request. */
  stream(): string | NodeJS.ReadableStream;
  /** Releases the spool file, if any. */
  dispose(): Promise<void>;
  /** Keeps the bytes there, whoever disposes of them, until what it answers is called. None: they are in memory. */
  pin?(): () => Promise<void>;
}

/** One change of the document tree. Paths of one list never overlap. `body` is there where the text is a whole body. */
export type DataOp =
  | { readonly op: 'put'; readonly path: DocPath; readonly text: () => string; readonly body?: Body }
  | { readonly op: 'remove'; readonly path: DocPath };

/** What the engine should hold of policy. */
export interface PolicySet {
  /** Commit hash that it reflects. */
  readonly hash: string;
  /** Rego text by module path, in load order. */
  readonly modules: ReadonlyMap<string, string>;
}

/** A subtree that the engine takes together with policy, with its whole text. */
export interface Region {
  readonly path: DocPath;
  readonly text: string;
}

/** One complaint of the engine, with the place in the policy where it has one. */
export interface EngineProblem {
  readonly message: string;
  readonly file?: string;
  readonly row?: number;
  /** Document path that collides with a rule (design 9.2). */
  readonly conflictPath?: DocPath;
}

/**
 * The engine's answer that will stay the same until policy or data change (400, 404): nothing was changed by the call.
 * Anything else that a call throws is transient and leaves it open whether the call took effect.
 */
export class EngineRefusal extends Error {
  readonly problems: readonly EngineProblem[];
  /** True where a part of the call had taken effect before: what it was about is in doubt. */
  readonly partial: boolean;

  constructor(message: string, problems: readonly EngineProblem[], partial = false) {
    super(message);
    this.name = 'EngineRefusal';
    this.problems = problems;
    this.partial = partial;
  }
}

/** The document by which a client knows the engine's content as its own (design 9.7). */
export interface EngineMarker {
  /** Marks the engine as being filled: it is not ours yet, but a restart from now on will be noticed. */
  begin(signal: AbortSignal): Promise<void>;
  /** True when the engine holds the marker that this client wrote. Throws when it cannot be reached. */
  isThere(signal: AbortSignal): Promise<boolean>;
  /**
   * Replaces the mark of {@link begin}: from now on the engine's content is ours to know. Throws when that mark is gone,
   * that is when the engine started anew while it was filled.
   */
  complete(signal: AbortSignal): Promise<void>;
}

/** A policy engine that the client keeps current. Calls are made one at a time. */
export interface PolicyEngine {
  /** Which way policy goes in; shown in status (design 9.4). */
  readonly policyMode: 'bundle' | 'modules';
  /**
   * Documents that the client keeps for itself (its marker, the health document): nothing that is delivered lies at or
   * below one of them, and what lies above is written around it.
   */
  readonly reserved: readonly DocPath[];
  readonly marker: EngineMarker;
  /**
   * Subtrees that, with this policy active, are written by {@link activate} only (the roots of the engine's bundle).
   * `held` are the subtrees of the active policy that have documents: they stay, so that these are never absent.
   */
  roots(policy: PolicySet, held: readonly DocPath[]): readonly DocPath[];
  /**
   * Judges a policy and its own static data (`regions`) without touching the engine: throws {@link EngineRefusal} for
   * what would not fit together. Answers at once where there is no means to tell.
   */
  check(policy: PolicySet, regions: readonly Region[], signal: AbortSignal): Promise<void>;
  /** Brings policy and the documents of its regions in, all or nothing. Throws {@link EngineRefusal}. */
  activate(
    policy: PolicySet,
    roots: readonly DocPath[],
    regions: readonly Region[],
    signal: AbortSignal,
  ): Promise<void>;
  /**
   * Writes documents outside the roots: one put as one request, several operations as one transaction. Missing parents
   * are made. Removing what is not there succeeds. Throws {@link EngineRefusal}.
   */
  write(ops: readonly DataOp[], signal: AbortSignal): Promise<void>;
  /** Writes one of the {@link reserved} documents. May be called while another call is under way. */
  writeReserved(path: DocPath, text: string, signal: AbortSignal): Promise<void>;
  /** Forgets what is known of the engine's content: it may have started anew. */
  startAfresh(): void;
}

/** One complaint as a line for people: with its place where it has one. */
export function problemText({ message, file, row }: EngineProblem): string {
  return file === undefined ? message : `${file}${row === undefined ? '' : `:${row}`}: ${message}`;
}
