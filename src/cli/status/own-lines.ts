import { z } from 'zod';
import { clientFailure, policyFailure } from '../../wire/clients.js';
import type { Condition } from './client-state.js';
import type { Page } from './fleet-lines.js';
import { failureLine, policyLine } from './reason-lines.js';
import { counted, printable, shortHash, since, wrapped } from './text.js';

const millis = z.number();

/** The last transaction of a client; older clients name the time `atMs`. */
const transaction = z.object({
  id: z.string(),
  success: z.boolean(),
  error: z.string(),
  at_ms: millis.optional(),
  atMs: millis.optional(),
});

/** The part of a client's `GET /healthy` that is shown. What older clients do not say is optional. */
export const ownHealth = z.object({
  status: z.string(),
  ready: z.boolean(),
  healthy: z.boolean(),
  policy: z.object({
    hash: z.string().nullable(),
    wanted: z.string().nullish(),
    failing: policyFailure.nullish(),
    last_transaction: transaction.nullish(),
  }),
  data: z.object({
    failing: z.array(z.union([clientFailure, z.string()])),
    failing_count: z.number().optional(),
    unresolved: z.number().optional(),
  }),
  engine: z.object({
    online: z.boolean(),
    error: z.string().nullable(),
    policy_mode: z.string(),
    since: millis.nullish(),
  }),
  server: z.object({ connected: z.boolean(), error: z.string().nullable(), since: millis.nullish() }),
});
type OwnHealth = z.infer<typeof ownHealth>;

/** `GET /position` of a client. */
export const ownPosition = z.object({
  epoch: z.string().nullable(),
  applied_through: z.number(),
  unresolved: z.array(z.number()),
});
type OwnPosition = z.infer<typeof ownPosition>;

/** Failing paths that are shown; `--json` has more. */
const SHOWN_FAILING = 20;
/** Where the values begin. */
const COLUMN = 10;

/** How a client sees itself, as lines for a terminal. `position`: undefined where it was not told. */
export function ownLines(health: OwnHealth, position: OwnPosition | undefined, { nowMs, width }: Page): string[] {
  const { ready, data, engine, server } = health;
  const { failing, failing_count: count = failing.length } = data;
  const more = Math.max(count, failing.length) - Math.min(failing.length, SHOWN_FAILING);
  const engineText = engine.online
    ? `answers (policy by ${printable(engine.policy_mode, 40)})`
    : `does not answer${when(engine.since, nowMs)}: ${printable(engine.error ?? 'nothing is known of why')}`;
  const away = `not connected${when(server.since, nowMs)}${server.error === null ? '' : `: ${printable(server.error)}`}`;
  const rows: [string, string][] = [
    ['State', isWell(health) ? 'healthy' : ready ? 'unhealthy' : 'not ready'],
    ['Policy', policyText(health, nowMs)],
    ['Position', positionText(position)],
    ['Engine', engineText],
    ['Server', server.connected ? 'connected' : away],
    ...failing
      .slice(0, SHOWN_FAILING)
      .map((failure, index): [string, string] => [index === 0 ? 'Failing' : '', failingText(failure, nowMs)]),
    ...(more > 0 ? [['', `and ${counted(more, 'more failing path')}`] as [string, string]] : []),
  ];
  return rows.flatMap(([name, text]) => wrapped(text, width, ' '.repeat(COLUMN), name.padEnd(COLUMN)));
}

/** Which conditions of `--fail-on` a client meets by its own word. */
export function ownConditions(health: OwnHealth): ReadonlySet<Condition> {
  const met = new Set<Condition>();
  if (!isWell(health)) met.add('unhealthy');
  if (policyFailing(health) !== undefined || (health.data.unresolved ?? 0) > 0) met.add('behind');
  if (!health.server.connected) met.add('away');
  return met;
}

/** A client that serves on purpose without its server counts as one that is well, as its answer says. */
function isWell({ status, healthy }: OwnHealth): boolean {
  return healthy || status === 'ok';
}

function policyFailing({ policy }: OwnHealth): z.infer<typeof policyFailure> | undefined {
  if (policy.failing !== undefined) return policy.failing ?? undefined;
  const last = policy.last_transaction;
  if (last == null || last.success) return undefined;
  return { commit: last.id === '' ? null : last.id, error: last.error, since: last.at_ms ?? last.atMs ?? 0 };
}

function policyText(health: OwnHealth, nowMs: number): string {
  const { hash, wanted } = health.policy;
  const failing = policyFailing(health);
  const newest = wanted ?? failing?.commit ?? hash;
  if (failing === undefined && newest === hash) return shortHash(hash);
  return policyLine({ wanted: newest, held: hash, failing }, nowMs).replace(/^policy: /, '');
}

function failingText(failure: OwnHealth['data']['failing'][number], nowMs: number): string {
  return typeof failure === 'string' ? printable(failure) : failureLine(failure, nowMs);
}

function positionText(at: OwnPosition | undefined): string {
  if (at === undefined) return '?';
  if (at.epoch === null) return '-';
  const open = at.unresolved.length === 0 ? '' : `, ${at.unresolved.length} open`;
  return `${at.applied_through} of update log ${printable(at.epoch, 100)}${open}`;
}

function when(atMs: number | null | undefined, nowMs: number): string {
  return atMs == null ? '' : ` ${since(atMs, nowMs)}`;
}
