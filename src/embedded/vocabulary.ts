import type { DocPath } from '../wire/doc-path.js';

/**
 * What every policy engine is asked, given and answers: the one inside the package, and one over
 * REST.
 */

/** A question to the engine. */
export interface EngineQuestion {
  /** As after `/v1/data/` in a URL: `app/rbac/allow`, without slashes at its ends. */
  readonly path: string;
  /** JSON text; undefined: no input. */
  readonly input: string | undefined;
}

/** What the engine answers. */
export interface EngineAnswer {
  /** The result as JSON, as the engine wrote it; undefined: the decision is undefined. */
  readonly text: string | undefined;
  /** What decided: compiled policy or OPA's evaluator (both embedded), or an OPA over REST. */
  readonly by: 'compiled' | 'go' | 'opa';
  /** Hash of the policy that decided; undefined where the engine does not tell. */
  readonly policy: string | undefined;
  /** The id under which the engine logs the decision, if it does. */
  readonly id?: string | undefined;
}

/** A subtree that the engine loads together with policy, with its whole text. */
export interface Region {
  readonly path: DocPath;
  readonly text: string;
}

/** One problem that the engine reports, with its position in the policy if known. */
export interface EngineProblem {
  readonly message: string;
  readonly file?: string;
  readonly row?: number;
  /** OPA's code, where the engine tells it: `rego_type_error`. */
  readonly code?: string;
  /** Document path that collides with a rule (design D10). */
  readonly conflictPath?: DocPath;
}

/** An error of OPA as a problem; a collision of rule and document has the document's path. */
export function opaProblem({
  message,
  file: place,
  row,
  code,
}: {
  message: string;
  file?: string | undefined;
  row?: number | undefined;
  code?: string | undefined;
}): EngineProblem {
  const file = place?.replace(/^\.?\//, '');
  return {
    message,
    ...(file === undefined || file === '' ? {} : { file }),
    ...(row === undefined ? {} : { row }),
    ...(code === undefined ? {} : { code }),
    ...conflictOf(message),
  };
}

function conflictOf(message: string): { conflictPath?: DocPath } {
  const [, path] = message.split('conflicting rule for data path ', 2);
  const end = path?.indexOf(' found') ?? -1;
  return path === undefined || end < 1 ? {} : { conflictPath: path.slice(0, end).split('/') };
}

/** One problem as a line of text, with its place if known. */
export function engineProblemText({ message, file, row }: EngineProblem): string {
  return file === undefined ? message : `${file}${row === undefined ? '' : `:${row}`}: ${message}`;
}

/**
 * The engine rejects a call, and will until policy or data change (400, 404): the call changed
 * nothing. Any other error is transient, and the outcome of the call is unknown.
 */
export class EngineRefusal extends Error {
  readonly problems: readonly EngineProblem[];
  /** True if a part of the call took effect: the state of its documents is in doubt. */
  readonly partial: boolean;

  constructor(message: string, problems: readonly EngineProblem[] = [{ message }], partial = false) {
    super(message);
    this.name = 'EngineRefusal';
    this.problems = problems;
    this.partial = partial;
  }
}
