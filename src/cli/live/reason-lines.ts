import { isFailing } from '../../fleet-rules/answer.js';
import { errorLine } from '../../fleet-rules/change-words.js';
import { ERROR_CODES, type ErrorCode } from '../../lib/errors.js';
import type { ClientFailure, ClientView, PolicyError, SourceView } from '../../wire/clients.js';
import { commitProblemText } from '../../wire/commit-problem.js';
import { counted, printable, roughDuration, shortHash, since } from '../kit/text.js';
import { conditionsOf, lacksPolicy } from './client-state.js';

/** Maximum failing entries of one client to show: `--json` has all that the server knows. */
const SHOWN_FAILING = 10;

/**
 * Whether the source cannot be read, or its commit is refused, even before any commit was served.
 */
export function sourceFails(source: SourceView): boolean {
  return isFailing(source) || source.refused !== undefined;
}

/** Returns the state of the policy source, with the reason if it fails. */
export function sourceLines(source: SourceView, nowMs: number): string[] {
  const { state, fetching, fetching_since: asked, head, wanted, doubted, checking, problems = [] } = source;
  const { awaited, error, code, failing_since: began, warnings = [] } = source;
  const serves = head == null ? 'nothing is served yet' : `${shortHash(head)} is served`;
  const when = began === undefined ? '' : ` ${since(Date.parse(began), nowMs)}`;
  const why = error == null ? '' : `: ${printable(error)}`;
  return [
    ...(sourceFails(source) ? [`Policy source: failing${when}, ${serves}${why}${codeText(code)}`] : []),
    // The first is in the sentence above.
    ...problems.slice(1).map((problem) => `also: ${printable(commitProblemText(problem))}`),
    ...(sourceFails(source) && code !== undefined && isCode(code) ? [`What to do: ${ERROR_CODES[code].remedy}`] : []),
    ...(state === 'starting' && !sourceFails(source)
      ? [`Policy source: ${serves}, it is being fetched${fetching === undefined ? '' : ` (${printable(fetching)})`}`]
      : []),
    ...(asked === undefined || state === 'starting'
      ? []
      : [`Policy source: asked ${roughDuration(nowMs - Date.parse(asked))} ago, it has not answered yet; ${serves}`]),
    ...(state === 'none' ? ['Policy source: none is configured'] : []),
    ...(wanted === undefined || wanted === head ? [] : [`Policy source: ${shortHash(wanted)} is wanted, ${serves}`]),
    ...(checking === undefined ? [] : [`Policy source: ${shortHash(checking)} is being checked, ${serves}`]),
    ...(doubted === undefined ? [] : [`Policy source: ${shortHash(doubted)} may be an older commit, ${serves}`]),
    ...(awaited === undefined ? [] : [awaitedLine(awaited, nowMs)]),
    ...warnings.map((text) => `Policy warning: ${printable(text)}`),
  ];
}

/** Whether one of the {@link reasonLines} is about the policy. */
export function hasPolicyReason(client: ClientView): boolean {
  return (client.connected && lacksPolicy(client)) || client.policy.error != null;
}

function awaitedLine(
  { commit, since: named, given_up: ended }: NonNullable<SourceView['awaited']>,
  nowMs: number,
): string {
  const what = `Policy source: does not show ${shortHash(commit)}, which a webhook named ${roughDuration(nowMs - Date.parse(named))} ago`;
  if (ended === undefined) return `${what}; it is asked again`;
  return `${what}; it is not asked for it any more: if no later push replaced it, send the webhook again`;
}

/**
 * Returns why a client is not healthy, one line for each refusal or failure, and which of its
 * directories are not there.
 */
export function reasonLines(client: ClientView, nowMs: number): string[] {
  const missing = missingText(client.policy.missing_directories);
  return [...(missing === undefined ? [] : [`policy directories: ${missing}`]), ...failureLines(client, nowMs)];
}

function failureLines(client: ClientView, nowMs: number): string[] {
  const { policy, engine, failing, failing_total: count = failing.length, duplicates, data } = client;
  const more = Math.max(count, failing.length) - Math.min(failing.length, SHOWN_FAILING);
  const lines = [
    ...(client.own_id == null ? [] : [nameLine(client.own_id)]),
    ...(client.connected ? [] : [awayLine(client, nowMs)]),
    ...(hasPolicyReason(client) ? [`policy: ${policyReason(policy, nowMs)}`] : []),
    ...failing.slice(0, SHOWN_FAILING).map((failure) => failureLine(failure, nowMs)),
    ...(more > 0 ? [`and ${counted(more, 'more failing path')}`] : []),
    ...(data.blocked.length > 0 && failing.length === 0 ? [blockedLine(data.blocked)] : []),
    ...(engine?.online === false ? [engineLine(engine.error)] : []),
    ...(duplicates > 0
      ? [`${counted(duplicates, 'other server instance')} has a client of this id connected, too`]
      : []),
  ];
  return [...lines, ...(lines.length > 0 ? [] : unknownReason(client)), ...clockLines(client)];
}

/** What there is to say of a client of which no reason is known. */
function unknownReason(client: ClientView): string[] {
  const met = conditionsOf(client);
  if (met.has('behind')) return [];
  if (client.ready === false) return ['not ready: policy and data were not loaded whole yet; nothing is known to fail'];
  return met.has('unhealthy') ? ['it names no reason; `policysync status client` beside it may'] : [];
}

/** Maximum missing directories to show. */
const SHOWN_MISSING = 10;

/** Names subscribed directories that are not there; undefined where all are. */
export function missingText(missing: readonly string[] = []): string | undefined {
  if (missing.length === 0) return undefined;
  const shown = missing.slice(0, SHOWN_MISSING).map((directory) => printable(directory, 100));
  return `not in the repository, so empty: ${shown.join(', ')}${missing.length > shown.length ? ', ...' : ''}`;
}

/** The policy state of a client. */
interface PolicyState {
  readonly wanted: string | null;
  readonly held: string | null;
  readonly error?: PolicyError | null | undefined;
  readonly since?: number | null | undefined;
}

/** Wanted and held commit, and why they differ. */
export function policyReason({ wanted, held, error, since: began }: PolicyState, nowMs: number): string {
  const commits = `wants ${shortHash(wanted)}, holds ${shortHash(held)}`;
  if (error == null) return commits;
  const when = began == null ? '' : ` ${since(began, nowMs)}`;
  return `${commits}; failing${when}: ${printable(errorLine(error))}`;
}

/** Returns one line about a failing path: since when, and why. */
export function failureLine({ path, error, since: began }: ClientFailure, nowMs: number): string {
  const when = began === undefined ? '' : ` ${since(began, nowMs)}`;
  return `${printable(path, 200)}: failing${when}${error === '' ? '' : `: ${printable(error)}`}`;
}

function nameLine(ownId: string): string {
  return `calls itself ${printable(ownId, 200)}, an id that another client uses: give it a SYNC_CLIENT_ID of its own`;
}

function awayLine({ away_since: left, away_reason: why, policy, last_error: last }: ClientView, nowMs: number): string {
  const when = left === null ? '' : ` ${since(left, nowMs)}`;
  const commits = `policy: wants ${shortHash(policy.wanted)}, held ${shortHash(policy.held)}`;
  const error =
    last === null
      ? ''
      : `; last error ${roughDuration(nowMs - last.at)} ago: ${printable(last.path, 200)}: ${printable(last.error)}`;
  const reason = why === undefined ? '' : `, ${printable(why)}`;
  return `away${when}${reason}; ${commits}${error}`;
}

function blockedLine(blocked: readonly number[]): string {
  const shown = blocked.slice(0, SHOWN_FAILING).join(', ');
  return `the engine refuses ${counted(blocked.length, 'update')}: ${shown}${blocked.length > SHOWN_FAILING ? ', ...' : ''}`;
}

function engineLine(error: string | null | undefined): string {
  return `engine: does not answer${error == null ? '' : `: ${printable(error)}`}`;
}

/** Reports may be under way for some seconds: only what is more says that a clock is wrong. */
const CLOCK_DIFFERS_MS = 10_000;

function clockLines({ clock_ahead_ms: aheadMs = 0 }: ClientView): string[] {
  if (Math.abs(aheadMs) <= CLOCK_DIFFERS_MS) return [];
  return [
    `its clock is ${roughDuration(Math.abs(aheadMs))} ${aheadMs > 0 ? 'ahead of' : 'behind'} that of the server: set both by NTP`,
  ];
}

function codeText(code: string | undefined): string {
  return code === undefined ? '' : ` [${printable(code, 100)}]`;
}

function isCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_CODES, code);
}
