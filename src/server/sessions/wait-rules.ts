import { parseDocPath } from '../../wire/doc-path.js';
import { hasApplied } from '../../wire/session.js';
import { type KnownClient, kindText, type PublishedTopics } from './known-client.js';

export interface AwaitedUpdate {
  readonly seq: number;
  readonly topics: PublishedTopics;
  /** `dst_path` of each entry. */
  readonly paths: readonly string[];
  /** Whether the publisher is limited to topics or paths: it sees the kind of a failure, not its text. */
  readonly isLimited?: boolean | undefined;
}

/** What fails at a client, and where, apart from each other. */
export interface ApplyFailure {
  /** The document; undefined: it is not known, or may not be named. */
  readonly path?: string | undefined;
  readonly text: string;
}

/** Whether a client has applied an update; `open`: it may still do so. `reason` is for people. */
export type ApplyStatus =
  | { readonly kind: 'applied' }
  | { readonly kind: 'blocked'; readonly reason: string; readonly failure: ApplyFailure }
  | { readonly kind: 'open'; readonly reason: string; readonly failure?: ApplyFailure };

/** Returns the status of one client (design D21). A superseded update counts as applied: positions advance past it. */
export function applyStatusOf(client: KnownClient, update: AwaitedUpdate, epoch: string): ApplyStatus {
  const { position: at, state, awaySinceMs } = client;
  const away = awaySinceMs === null ? undefined : `away since ${new Date(awaySinceMs).toISOString()}`;
  if (at === null) return { kind: 'open', reason: away ?? 'it has not reported yet' };
  if (at.epoch !== epoch) return { kind: 'open', reason: away ?? 'its position is in another log' };
  if (state?.blocked.includes(update.seq)) {
    const failure = failureOf(client, update) ?? { text: 'the engine refuses it' };
    return { kind: 'blocked', reason: `blocked: ${sentence(failure)}`, failure };
  }
  if (hasApplied(at, update.seq)) return { kind: 'applied' };
  if (away !== undefined) return { kind: 'open', reason: away };
  if (at.unresolved.includes(update.seq)) {
    const failure = failureOf(client, update) ?? { text: 'it is being retried' };
    return { kind: 'open', reason: `failing: ${sentence(failure)}`, failure };
  }
  return { kind: 'open', reason: `it has applied up to ${at.applied_through}` };
}

/** Returns the failure that the client reports at the paths of the update. */
function failureOf({ state }: KnownClient, { paths, isLimited }: AwaitedUpdate): ApplyFailure | undefined {
  const found = state?.failing.find(({ path }) => paths.some((own) => overlap(segments(own), segments(path))));
  if (found === undefined) return undefined;
  return isLimited ? { text: kindText(found.kind) } : { path: found.path, text: found.error };
}

function sentence({ path, text }: ApplyFailure): string {
  return path === undefined ? text : `${path}: ${text}`;
}

function overlap(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  if (a === undefined || b === undefined) return false;
  const shorter = a.length < b.length ? a : b;
  return shorter.every((segment, index) => a[index] === segment && b[index] === segment);
}

function segments(path: string): readonly string[] | undefined {
  try {
    return parseDocPath(path);
  } catch {
    return undefined; // a client may report any text
  }
}
