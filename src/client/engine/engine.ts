import type { DocPath } from '../../wire/doc-path.js';

/** The one seam between the client and a policy engine. OPA over REST is the first implementation. */

/** Where a document's bytes are: as text in memory, or in a spool file. `hash` is the hex SHA-256 of the bytes. */
export interface Body {
  readonly hash: string;
  readonly sizeBytes: number;
  /** The whole text; reads the file when the body is spooled. */
  text(): Promise<string>;
  /** The bytes for one request. */
  stream(): string | NodeJS.ReadableStream;
}

/** One change of the document tree; paths of one list never overlap. */
export type DataOp = { op: 'put'; path: DocPath; text: string } | { op: 'remove'; path: DocPath };

/** What the engine should hold of policy. */
export interface PolicySet {
  /** Commit hash that it reflects. */
  hash: string;
  /** Rego text by module path, in load order. */
  modules: ReadonlyMap<string, string>;
}

/** Why an engine refused something. `blocked` stays until policy or data change, `transient` may pass. */
export type RefusalKind = 'blocked' | 'transient';

/** One complaint of the engine, with the place in the policy where it has one. */
export interface EngineProblem {
  message: string;
  file?: string;
  row?: number;
  /** Document path that collides with a rule. */
  conflictPath?: DocPath;
}
