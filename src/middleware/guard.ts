import type { DecideOptions, Decider, Decision } from '../client/decisions/decision.js';
import type { SyncError } from '../lib/errors.js';
import { type RoutedAddress, type RouterWays, readAddress } from './address.js';

/** What the policy learns of a request, unless the application says otherwise. */
export interface RequestInput {
  /** In upper case. */
  readonly method: string;
  /**
   * The segments of the path that the router reads, decoded, without scheme, host and a slash at
   * the end: `/documents/Ann%20B/` is `["documents", "Ann B"]`. Text of the route is spelled as
   * there. An address that has several readings is 403, and no policy is asked.
   */
  readonly path: readonly string[];
  /** The route that answers, as it is declared: `/documents/:id`; null where that is not known. */
  readonly route: string | null;
  /** Its parameters. */
  readonly params: unknown;
  readonly query: unknown;
  /** What the option `user` returns; left out without it. */
  readonly user?: unknown;
}

/** Options of a guard, whichever the framework. */
export interface GuardOptions<R> {
  /** The client that decides. */
  readonly client: Pick<Decider, 'decide'>;
  /** Returns who asks, from what the application's authentication left in the request. */
  readonly user?: ((request: R) => unknown) | undefined;
  /**
   * Returns the input of the decision. Default: {@link RequestInput}, which it gets as second
   * argument.
   */
  readonly input?: ((request: R, usual: RequestInput) => unknown) | undefined;
  /**
   * Whether a decision lets the request pass: nothing but `true` does. Default: `decision.allowed`.
   */
  readonly isAllowed?: ((decision: Decision) => boolean | Promise<boolean>) | undefined;
  /** Options of each decision, for example `{ onUnavailable: 'last' }`. */
  readonly decide?: DecideOptions | undefined;
}

/** A response in place of the application's. */
export interface GuardResponse {
  readonly status: 403 | 503;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: {
    readonly error: 'forbidden' | 'ambiguous_address' | 'no_decision';
    readonly message: string;
    /** Why there is no decision: a code of docs/reference/errors.md. */
    readonly code?: string;
    readonly decision_id?: string;
  };
}

/** What a framework tells of a request. */
export interface RequestFacts extends Pick<RequestInput, 'method' | 'route' | 'params' | 'query'> {
  readonly address: RoutedAddress;
  readonly ways: RouterWays;
}

/** What a guard found. Without `response` the request passes. */
export interface GuardVerdict {
  readonly decision: Decision | undefined;
  readonly response: GuardResponse | undefined;
  /** Why there is no decision. */
  readonly error: SyncError | undefined;
}

/**
 * The header that has the id of the decision, in each response to a request that was decided about.
 */
export const DECISION_HEADER = 'x-decision-id';

const NO_STORE = { 'cache-control': 'no-store' };
const RETRY_AFTER_SECONDS = 1;
const NO_DECISION = 'No decision about this request can be made';

/**
 * Asks for the decision about a request. Rejects with an error that is no answer to a caller if the
 * application asks what no engine can be asked (`request_invalid`), or if a function of its own
 * throws.
 */
export async function judgeRequest<R>(
  options: GuardOptions<R>,
  path: string,
  request: R,
  { address, ways, ...facts }: RequestFacts,
): Promise<GuardVerdict> {
  const reading = readAddress(address, ways);
  if (reading.ambiguous !== undefined) {
    return { decision: undefined, response: ambiguous(reading.ambiguous), error: undefined };
  }
  const known = { ...facts, path: reading.value };
  const usual: RequestInput = options.user === undefined ? known : { ...known, user: await options.user(request) };
  const input = options.input === undefined ? usual : await options.input(request, usual);
  let decision: Decision;
  try {
    decision = await options.client.decide(path, input, options.decide);
  } catch (error) {
    if (!isNoAnswer(error)) throw new Error(`the decision ${path} cannot be asked for`, { cause: error });
    return { decision: undefined, response: noDecision(error, undefined), error };
  }
  if (decision.kind === 'unavailable') {
    return { decision, response: noDecision(decision.error, decision.id), error: decision.error };
  }
  const isAllowed = options.isAllowed === undefined ? decision.allowed : (await options.isAllowed(decision)) === true;
  return { decision, response: isAllowed ? undefined : forbidden(decision.id), error: undefined };
}

/**
 * By its name: the client may come from another copy of this package, whose class is another one.
 */
function isNoAnswer(error: unknown): error is SyncError {
  return error instanceof Error && error.name === 'SyncError' && (error as SyncError).code !== 'request_invalid';
}

function forbidden(id: string): GuardResponse {
  const message = 'The policy does not allow this request.';
  return { status: 403, headers: headersOf(id), body: { error: 'forbidden', message, decision_id: id } };
}

function ambiguous(why: string): GuardResponse {
  const message = `The address of this request can be read in more than one way: ${why}.`;
  return { status: 403, headers: NO_STORE, body: { error: 'ambiguous_address', message } };
}

/**
 * `Retry-After` only where the same request may have a decision later: not if the policy cannot
 * decide it, or the client cannot go on.
 */
function noDecision(
  { code, retryable, retryAfterSeconds = RETRY_AFTER_SECONDS }: SyncError,
  id: string | undefined,
): GuardResponse {
  return {
    status: 503,
    headers: { ...headersOf(id), ...(retryable && { 'retry-after': String(retryAfterSeconds) }) },
    body: {
      error: 'no_decision',
      message: retryable ? `${NO_DECISION} now. Try again soon.` : `${NO_DECISION}.`,
      code,
      ...(id === undefined ? {} : { decision_id: id }),
    },
  };
}

function headersOf(id: string | undefined): Record<string, string> {
  return id === undefined ? NO_STORE : { ...NO_STORE, [DECISION_HEADER]: id };
}
