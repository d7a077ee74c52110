import type { DocPath } from '../../wire/doc-path.js';
import type { DataOp } from '../desired/layers.js';
import type { ArrivingBody } from '../fetch/arriving-file.js';

/** The one seam between the client and a policy engine. OPA over REST is the first implementation. */

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

/** One problem that the engine reports, with its place in the policy if known. */
export interface EngineProblem {
  readonly message: string;
  readonly file?: string;
  readonly row?: number;
  /** Document path that collides with a rule (design D10). */
  readonly conflictPath?: DocPath;
}

/**
 * The engine rejects a call, and will until policy or data change (400, 404): the call changed nothing. Any other error of a
 * call is transient and leaves open whether the call took effect.
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

/** The document by which a client knows the engine's content as its own (design D23). */
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

/** States that an engine holds exactly the content of this backup, made at this position. */
export interface Seal {
  /** Id of the backup. */
  readonly backup: string;
  readonly epoch: string | null;
  /** `applied_through` of its position. */
  readonly seq: number | null;
}

/**
 * The seal on an engine that outlives the client (design D23): while it is there, the engine holds what the backup of that
 * name has, no more and no less, and a client that starts from this backup writes nothing. It is broken before the first
 * write that follows.
 */
export interface EngineSeals {
  /** Counts writes into the engine, each from its beginning on. */
  readonly writes: number;
  /** Sets the seal, unless something was written since {@link writes} was that. Returns whether it is set. */
  seal(seal: Seal, writes: number, signal: AbortSignal): Promise<boolean>;
  /** Takes over an engine that has this very seal, and keeps it. False: it has not, and nothing has changed. */
  claim(seal: Seal, signal: AbortSignal): Promise<boolean>;
  /** Breaks the seal where there may be one; call before each write. */
  changes(signal: AbortSignal): Promise<void>;
  /** A write ended without an answer and may still take effect: nothing is sealed for a while. */
  inDoubt(): void;
}

/** A policy engine that the client keeps current. Calls are made one at a time. */
export interface PolicyEngine {
  /** How policy is written; shown in status (design D12). */
  readonly policyMode: 'bundle' | 'modules';
  /**
   * Documents that the client keeps for itself (its marker, the health document): nothing that is delivered lies at or
   * below one of them, and what lies above is written around it.
   */
  readonly reserved: readonly DocPath[];
  readonly marker: EngineMarker;
  /** Of an engine that may outlive the client; undefined for our own child. */
  readonly seals?: EngineSeals;
  /**
   * Subtrees that, with this policy active, are written by {@link activate} only (the roots of the engine's bundle).
   * `held` are the subtrees of the active policy that have documents: they stay, so that these are never absent.
   */
  roots(policy: PolicySet, held: readonly DocPath[]): readonly DocPath[];
  /**
   * Judges a policy and its own static data (`regions`) without touching the engine: throws {@link EngineRefusal} for
   * what would not fit together. Returns at once without a means to judge.
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
   * Restores the modules of the active policy and removes foreign ones, except those that the engine loads by itself and packages
   * below `system`. Returns the ids of the modules that had to change.
   */
  tidy(policy: PolicySet, signal: AbortSignal): Promise<readonly string[]>;
  /** Only this client can write modules: no need to {@link tidy} after each commit. */
  readonly isGuarded: boolean;
  /**
   * Writes documents outside the roots: one put as one request, several operations as one transaction. Missing parents
   * are made. Removing what is not there succeeds. Throws {@link EngineRefusal}.
   */
  write(ops: readonly DataOp[], signal: AbortSignal): Promise<void>;
  /**
   * Starts to send a document that will probably be written. Nothing takes effect before {@link write}, which may never come, and
   * which sends everything anew if this failed. May run beside another call.
   */
  prepareUpload?(path: DocPath, arriving: ArrivingBody): void;
  /** The engine's response for a path, as text; it includes the results of rules. */
  read(path: DocPath, signal: AbortSignal): Promise<string>;
  /** Writes one of the {@link reserved} documents. May be called while another call is under way. */
  writeReserved(path: DocPath, text: string, signal: AbortSignal): Promise<void>;
  /** Forgets what is known of the engine's content: it may have started anew. */
  startAfresh(): void;
}

/** One problem as a line of text, with its place if known. */
export function problemText({ message, file, row }: EngineProblem): string {
  return file === undefined ? message : `${file}${row === undefined ? '' : `:${row}`}: ${message}`;
}
