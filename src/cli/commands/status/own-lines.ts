import * as z from 'zod';
import { ERROR_CODES, type ErrorCode } from '../../../lib/errors.js';
import { clientHealth, clientPosition, NO_RULE } from '../../../wire/client-health.js';
import { clientFailure } from '../../../wire/clients.js';
import { counted, printable, shortHash, since, wrapped } from '../../kit/text.js';
import type { Condition } from '../../live/client-state.js';
import type { Page } from '../../live/fleet-lines.js';
import { failureLine, missingText, policyReason } from '../../live/reason-lines.js';

/** Converts a time of `GET /healthy` to milliseconds since 1970. */
const time = z.iso.datetime().transform((text) => Date.parse(text));

const { policy, data, engine, server, connectivity } = clientHealth.shape;

/** The shown part of a client's `GET /healthy`; older clients omit some of it. */
export const ownHealth = z.object({
  ...clientHealth.pick({ ready: true, healthy: true }).shape,
  status: z.string(),
  now: time.optional(),
  policy: policy
    .pick({ hash: true, wanted: true, error: true, awaiting_data: true, missing_directories: true })
    .extend({ since: time.nullable() }),
  data: data
    .pick({ failing_total: true, unresolved: true, awaiting_policy: true })
    .extend({ failing: z.array(clientFailure.partial({ path: true, error: true }).extend({ since: time })) }),
  engine: engine
    .pick({ online: true, error: true, policy_mode: true, version: true, rego: true })
    .partial({ rego: true })
    .extend({
      access: z.string().optional(),
      kind: z.string().optional(),
      since: time,
      embedded: z
        .object({ with_go: z.array(z.object({ path: z.string(), reason: z.string() })).default([]) })
        .optional(),
    }),
  server: server
    .partial({ code: true })
    .extend({ since: time.nullable(), cut_off_since: time.nullable().default(null) }),
  connectivity: connectivity.pick({ backup: true }).optional(),
});
type OwnHealth = z.infer<typeof ownHealth>;

/** The shown part of a client's `GET /position`. */
export const ownPosition = clientPosition.pick({ epoch: true, applied_through: true, unresolved: true });
type OwnPosition = z.infer<typeof ownPosition>;
/** The position, or a sentence that says why it is not known. */
export type ShownPosition = OwnPosition | string;

/** Maximum failing paths to show; `--json` has more. */
const SHOWN_FAILING = 20;
/** Decisions that are not compiled, to show. */
const SHOWN_WITH_GO = 5;
/** What a caller reads who is not told why something fails. */
const UNTOLD = 'the client tells them to holders of a token without limits: --token, or SYNC_CLIENT_TOKEN';
/** Column of the values. */
const COLUMN = 10;

/** Formats the state of a client as lines for a terminal. */
export function ownLines(health: OwnHealth, position: ShownPosition, { nowMs, width }: Page): string[] {
  const { ready, data, engine, server, connectivity: { backup } = {} } = health;
  const { failing, failing_total: count, awaiting_policy: waiting } = data;
  const named = failing.flatMap(({ path, error = '', ...rest }) =>
    path === undefined ? [] : [{ path, error, ...rest }],
  );
  const shown = named.slice(0, SHOWN_FAILING);
  const more = Math.max(count, failing.length) - shown.length;
  const { awaiting_data: awaiting } = health.policy;
  const missing = missingText(health.policy.missing_directories);
  const engineText = engine.online
    ? `answers (${printable(`${engine.kind === undefined ? '' : `${engine.kind} `}OPA ${engine.version ?? '?'}`, 40)}${engine.policy_mode === undefined ? '' : `, policy by ${printable(engine.policy_mode, 40)}`}${regoText(engine.rego)}${engine.access === 'open' ? ', open: everybody may write' : ''})`
    : `does not answer${when(engine.since, nowMs)}${engine.error === undefined ? '' : `: ${printable(engine.error ?? 'nothing is known of why')}`}`;
  const away = `not connected${when(server.since, nowMs)}${server.error == null ? '' : `: ${printable(server.error)}`}`;
  const rows: [string, string][] = [
    ['State', isWell(health) ? 'healthy' : ready ? 'unhealthy' : 'not ready'],
    ['Policy', ownPolicyText(health, nowMs)],
    ...(awaiting === undefined ? [] : [['', awaitingText(awaiting.total)] as [string, string]]),
    ...(missing === undefined ? [] : [['', missing] as [string, string]]),
    ['Position', positionText(position)],
    ['Engine', engineText],
    ...withGoRows(engine.embedded?.with_go ?? []),
    ['Server', server.connected ? connectedText(server.cut_off_since, nowMs) : away],
    ...(server.connected ? [] : remedyOf(server.code).map((text): [string, string] => ['', text])),
    ...(backup?.error == null
      ? []
      : [['Backup', `the file is not what the client holds: ${printable(backup.error)}`] as [string, string]]),
    ...shown.map((failure, index): [string, string] => [index === 0 ? 'Failing' : '', failureLine(failure, nowMs)]),
    ...(more > 0 && shown.length > 0 ? [['', `and ${counted(more, 'more failing path')}`] as [string, string]] : []),
    ...(more > 0 && shown.length === 0 ? [['Failing', counted(more, 'path')] as [string, string]] : []),
    ...(waiting === undefined
      ? []
      : [['Waiting', `${counted(waiting.total, 'document')} for the first policy`] as [string, string]]),
    // An insider always gets this member.
    ...(server.error === undefined && !isWell(health) ? [['Reasons', UNTOLD] as [string, string]] : []),
  ];
  return rows.flatMap(([name, text]) => wrapped(text, width, ' '.repeat(COLUMN), name.padEnd(COLUMN)));
}

/** Decisions that OPA's Go code answers, though the policy has rules for them. */
function withGoRows(all: readonly { readonly path: string; readonly reason: string }[]): [string, string][] {
  const found = all.filter(({ reason }) => reason !== NO_RULE);
  const shown = found.slice(0, SHOWN_WITH_GO).map(({ path, reason }) => `${path} is not compiled: ${reason}`);
  const more = found.length - shown.length;
  if (more > 0) shown.push(`and ${counted(more, 'more decision')}`);
  return shown.map((text) => ['', printable(text)]);
}

/** What the first policy waits for. */
function awaitingText(missing: number): string {
  const what =
    missing === 0 ? 'which it has not read yet' : `of which ${missing} ${missing === 1 ? 'is' : 'are'} missing`;
  return `waits for the documents of the first load, ${what}`;
}

/** Returns the conditions of `--fail-on` that a client reports. */
export function ownConditions(health: OwnHealth): ReadonlySet<Condition> {
  const met = new Set<Condition>();
  if (!isWell(health)) met.add('unhealthy');
  const { policy, data } = health;
  if ((policy.wanted !== null && policy.wanted !== policy.hash) || data.unresolved > 0) met.add('behind');
  if (!health.server.connected || health.server.cut_off_since !== null) met.add('away');
  return met;
}

/** A client that is disconnected on purpose counts as healthy, as its status says. */
function isWell({ status, healthy }: OwnHealth): boolean {
  return healthy || status === 'ok';
}

function ownPolicyText({ policy: { hash, wanted, error, since: began } }: OwnHealth, nowMs: number): string {
  if (error == null && (wanted === null || wanted === hash)) return shortHash(hash);
  return policyReason({ wanted, held: hash, error, since: began }, nowMs);
}

/** Returns the remedy for an error code that this program knows. */
function remedyOf(code: string | null | undefined): string[] {
  const known = code == null || !Object.hasOwn(ERROR_CODES, code) ? undefined : ERROR_CODES[code as ErrorCode];
  return known === undefined ? [] : [`What to do: ${known.remedy} [${code}]`];
}

function positionText(at: ShownPosition): string {
  if (typeof at === 'string') return printable(at);
  if (at.epoch === null) return '-';
  const { unresolved = [] } = at;
  const open = unresolved.length === 0 ? '' : `, ${unresolved.length} open`;
  return `${at.applied_through} of update log ${printable(at.epoch, 100)}${open}`;
}

function connectedText(cutOffSince: number | null, nowMs: number): string {
  if (cutOffSince === null) return 'connected';
  return `connected, but it is cut off from its backbone${when(cutOffSince, nowMs)}: what was published elsewhere is missing here`;
}

function when(atMs: number | null, nowMs: number): string {
  return atMs === null ? '' : ` ${since(atMs, nowMs)}`;
}

/** The Rego versions of the modules; empty if there are none, or they are unknown. */
function regoText(rego: { v0: number; v1: number } | null | undefined): string {
  if (rego === null || rego === undefined || rego.v0 + rego.v1 === 0) return '';
  if (rego.v0 === 0) return ', Rego v1';
  return rego.v1 === 0 ? ', Rego v0' : `, Rego v1 and ${rego.v0} ${rego.v0 === 1 ? 'module' : 'modules'} v0`;
}
