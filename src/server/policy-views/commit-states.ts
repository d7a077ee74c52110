/** What is known of a commit of the branch. */
export interface CommitKnown {
  readonly isHead: boolean;
  readonly isRefused: boolean;
  /** It was the head of the server instances. */
  readonly wasServed: boolean;
  /** It is the end of the branch. */
  readonly isNewest: boolean;
  /** Nothing before it is known to have been served: the memory of the server begins later. */
  readonly isOlder: boolean;
}

/** The first rule that holds decides. */
const RULES: readonly (readonly [state: string, holds: (known: CommitKnown) => boolean])[] = [
  ['head', ({ isHead }) => isHead],
  ['refused', ({ isRefused }) => isRefused],
  ['served', ({ wasServed }) => wasServed],
  ['found', ({ isNewest }) => isNewest],
  ['older', ({ isOlder }) => isOlder],
  ['replaced', () => true],
];

/**
 * head, refused, served, found (not served yet), older (than the first that is known to have been served), or replaced: a later commit came
 * with it, and it was never served.
 */
export function commitState(known: CommitKnown): string {
  return RULES.find(([, holds]) => holds(known))?.[0] ?? 'replaced';
}
