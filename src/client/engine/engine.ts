import type { EngineRefusal, Region } from '../../embedded/vocabulary.js';
import type { DocPath } from '../../wire/doc-path.js';
import type { DataOp } from '../desired/layers.js';
import type { ArrivingBody } from '../fetch/arriving-file.js';

/**
 * The interface between the client and a policy engine. OPA over REST is the first implementation.
 */

/** The policy that the engine should hold. */
export interface PolicySet {
  /** Commit hash that it reflects. */
  readonly hash: string;
  /** Rego text by module path, in load order. */
  readonly modules: ReadonlyMap<string, string>;
}

/** The document by which a client knows the engine's content as its own (design D23). */
export interface EngineMarker {
  /**
   * Marks the engine as being filled: it is not ours yet, but a restart from now on is detected.
   */
  begin(signal: AbortSignal): Promise<void>;
  /**
   * Whether the engine holds the marker that this client wrote. Rejects if it cannot be reached.
   */
  isThere(signal: AbortSignal): Promise<boolean>;
  /**
   * Replaces the mark of {@link begin}: from now on this client knows the engine's content. Rejects
   * if that mark is missing: the engine restarted while it was filled.
   */
  complete(signal: AbortSignal): Promise<void>;
}

/** Certifies that an engine holds exactly the content of a backup, made at this position. */
export interface Seal {
  /** Id of the backup. */
  readonly backup: string;
  readonly epoch: string | null;
  /** `applied_through` of its position. */
  readonly seq: number | null;
}

/**
 * The seal on an engine that outlives the client (design D23): while it exists, the engine holds
 * exactly the content of the named backup, and a client that starts from this backup writes
 * nothing. The client breaks it before its next write.
 */
export interface EngineSeals {
  /** Number of writes that have started. */
  readonly writes: number;
  /** Sets the seal, unless {@link writes} has increased. Returns whether it is set. */
  seal(seal: Seal, writes: number, signal: AbortSignal): Promise<boolean>;
  /**
   * Takes over an engine that has exactly this seal. Returns false, and changes nothing, if it has
   * not.
   */
  claim(seal: Seal, signal: AbortSignal): Promise<boolean>;
  /** Breaks the seal if there may be one; call it before each write. */
  changes(signal: AbortSignal): Promise<void>;
  /** Prevents seals for a while: a write ended without a response and may still take effect. */
  inDoubt(): void;
}

/** A policy engine that the client keeps current. Calls are made one at a time. */
export interface PolicyEngine {
  /** How policy is written; shown in status (design D12). */
  readonly policyMode: 'bundle' | 'modules';
  /**
   * Documents that the client reserves for itself (its marker, the health document): no delivered
   * document lies at or below one of them, and writes above one leave it intact.
   */
  readonly reserved: readonly DocPath[];
  /** Those of {@link reserved} that are documents of the engine. */
  readonly occupied: readonly DocPath[];
  readonly marker: EngineMarker;
  /** Undefined for our own child, which never outlives the client. */
  readonly seals?: EngineSeals;
  /**
   * Returns the subtrees that, with this policy active, only {@link activate} and
   * {@link writeInRoots} write (the roots of the engine's bundle). `held`: the subtrees of the
   * active policy that have documents. They stay roots, so that these documents are never absent.
   */
  roots(policy: PolicySet, held: readonly DocPath[]): readonly DocPath[];
  /**
   * Checks a policy and its static data (`regions`) without touching the engine: rejects with
   * {@link EngineRefusal} if they do not fit together. Resolves at once if no check is available.
   */
  check(policy: PolicySet, regions: readonly Region[], signal: AbortSignal): Promise<void>;
  /**
   * Whether it goes on deciding when this client has stopped, as far as is known; undefined: it
   * does not. Never rejects.
   */
  goesOn?(signal: AbortSignal): Promise<boolean>;
  /**
   * Whether it has rules that this client has not given it; undefined: only this client gives it
   * any.
   */
  hasOwnRules?(signal: AbortSignal): Promise<boolean>;
  /**
   * Writes policy and the documents of its regions, all or nothing. Rejects with
   * {@link EngineRefusal}.
   */
  activate(
    policy: PolicySet,
    roots: readonly DocPath[],
    regions: readonly Region[],
    signal: AbortSignal,
  ): Promise<void>;
  /**
   * Writes documents at and below the roots of the active policy without compiling it again, all or
   * nothing; parents within a root are there. `policy` has the modules of the active one, and may
   * be of another commit. Rejects with {@link EngineRefusal} where a rule has the place; returns
   * false where this engine cannot do it: then nothing changed, and {@link activate} does it, or
   * says why not.
   */
  writeInRoots?(
    policy: PolicySet,
    roots: readonly DocPath[],
    ops: readonly DataOp[],
    signal: AbortSignal,
  ): Promise<boolean>;
  /**
   * Restores the modules of the active policy and removes foreign ones, except those that the
   * engine loads by itself and packages below `system`. Returns the ids of the modules that had to
   * change.
   */
  tidy(policy: PolicySet, signal: AbortSignal): Promise<readonly string[]>;
  /** Only this client can write modules: no need to {@link tidy} after each commit. */
  readonly isGuarded: boolean;
  /**
   * Writes documents outside the roots: a single put as one request, several operations as one
   * transaction. Creates missing parents. Removing a missing document succeeds. Afterwards removes
   * those of `shells`, objects at these paths, that hold nothing but each other: others may have
   * put something there. Rejects with {@link EngineRefusal}.
   */
  write(ops: readonly DataOp[], signal: AbortSignal, shells: readonly DocPath[]): Promise<void>;
  /**
   * Starts to send a document that will probably be written. Takes effect only with {@link write},
   * which may never follow, and which sends everything again if this failed. May run concurrently
   * with another call.
   */
  prepareUpload?(path: DocPath, arriving: ArrivingBody): void;
  /** Returns the engine's response for a path, as text; it includes the results of rules. */
  read(path: DocPath, signal: AbortSignal): Promise<string>;
  /** Writes one of the {@link reserved} documents. May run concurrently with another call. */
  writeReserved(path: DocPath, text: string, signal: AbortSignal): Promise<void>;
  /** Discards all knowledge of the engine's content: it may have restarted. */
  startAfresh(): void;
}
