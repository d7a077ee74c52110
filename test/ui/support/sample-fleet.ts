import { createHash } from 'node:crypto';
import type { FleetChange, FleetInstance, FleetRow, FleetSnapshot, FleetSummary } from '../../../src/wire/fleet.js';

/** How a sample fleet is. */
export interface SampleOptions {
  /** Number of clients. */
  readonly clients: number;
  /** How far the policy came: 0 to 1 of the clients that can take it. */
  readonly progress: number;
  /** Clients that refuse, are away, are behind and so on. */
  readonly troubled: boolean;
  /** The clock of the server, in milliseconds since 1970. */
  readonly now: number;
  /** When the newest commit was announced. */
  readonly since: number;
}

const APPS = ['orders', 'stock', 'mailer', 'accounts', 'gateway', 'reports'] as const;
const ZONES = ['eu-1', 'eu-2', 'us-1'] as const;
/** Names of the server instances. */
export const INSTANCES = ['policysync-0', 'policysync-1', 'policysync-2'] as const;
export const EPOCH = '9f2c61d07be84a35';
/** The last data update. */
export const DATA_HEAD = 20_418;
const ENGINES = ['opa 1.22.0', 'opa 1.22.0', 'opa 1.22.0', 'opa 1.21.0', 'opa 1.18.2'] as const;
/** Too old for what the refused commit calls. */
const OLD_ENGINE = 'opa 0.55.0';
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** A commit as git names it. */
export function commit(number: number): string {
  return createHash('sha1').update(`policysync commit ${number}`).digest('hex');
}

/** The commit that is served, the one before, and one that the server refused. */
export const HEAD = commit(3);
export const BEFORE = commit(2);
export const NOT_SERVED = commit(5);

export const REFUSAL = {
  message: 'rego_type_error: undefined function strings.render_template',
  file: 'policy/orders/approval.rego',
  line: 27,
} as const;

/** A number from 0 to 1 that is always the same for the same words. */
export function chance(...words: readonly (string | number)[]): number {
  return createHash('sha1').update(words.join(' ')).digest().readUInt32BE(0) / 2 ** 32;
}

function pick<T>(list: readonly T[], ...words: readonly (string | number)[]): T {
  const found = list[Math.floor(chance(...words) * list.length)];
  if (found === undefined) throw new Error('there is nothing to pick from');
  return found;
}

type Trouble = 'refused' | 'away' | 'plain' | 'blocked' | 'failing' | 'not_ready' | 'behind' | 'none';

/** What is wrong with a client, by its place: the first few of a hundred. */
function troubleOf(place: number, { troubled }: SampleOptions): Trouble {
  const kinds: readonly Trouble[] = [
    'refused',
    'away',
    'plain',
    'refused',
    'blocked',
    'failing',
    'not_ready',
    'behind',
  ];
  const index = place % 130;
  return troubled && index % 7 === 0 ? (kinds[index / 7] ?? 'none') : 'none';
}

/** The clients of a sample fleet. The same options give the same rows. */
export function sampleRows(options: SampleOptions): FleetRow[] {
  const places = Array.from({ length: options.clients }, (_, place) => place);
  const regular = places
    .filter((place) => ['none', 'behind', 'blocked'].includes(troubleOf(place, options)))
    .sort((a, b) => chance('rank', a) - chance('rank', b));
  const held = Math.min(regular.length, Math.round(options.progress * options.clients));
  const told = held + Math.round((regular.length - held) * 0.8);
  const rank = new Map(regular.map((place, index) => [place, index]));
  return places.map((place) => {
    const at = rank.get(place) ?? regular.length;
    return rowOf(place, at < held ? 'acknowledged' : at < told ? 'told' : 'not_told', options);
  });
}

function rowOf(place: number, standing: 'acknowledged' | 'told' | 'not_told', options: SampleOptions): FleetRow {
  const { now, since } = options;
  const trouble = troubleOf(place, options);
  const app = pick(APPS, 'app', place);
  const zone = pick(ZONES, 'zone', place);
  const connectedAt = now - Math.round((1 + chance('connected', place) * 9) * DAY);
  const plain = trouble === 'plain';
  const id = plain
    ? `10.20.0.${place % 250}:50122`
    : `${app}-${zone}-${createHash('sha1').update(`client ${place}`).digest('hex').slice(0, 6)}`;
  const state = plain ? 'does_not_say' : trouble === 'refused' ? 'refused' : trouble === 'away' ? 'away' : standing;
  const awaySince = trouble === 'away' ? now - 4 * MINUTE : null;
  const stateSince =
    awaySince ?? (state === 'acknowledged' ? since + Math.round(chance('took', place) * (now - since)) : since + 180);
  const behind =
    trouble === 'away'
      ? 3
      : ['blocked', 'failing'].includes(trouble)
        ? 1
        : ['behind', 'not_ready'].includes(trouble)
          ? 2
          : 0;
  const health = plain
    ? 'does_not_say'
    : trouble === 'away'
      ? 'was_healthy'
      : ['blocked', 'failing'].includes(trouble)
        ? 'unhealthy'
        : trouble === 'not_ready'
          ? 'not_ready'
          : 'healthy';
  return {
    id,
    kind: plain ? 'plain' : 'session',
    connected: trouble !== 'away',
    labels: plain ? {} : { app, zone },
    address: `10.20.${place % 8}.${10 + (place % 200)}:${40_000 + (place % 9000)}`,
    instance: INSTANCES[place % INSTANCES.length] ?? INSTANCES[0],
    topics: plain ? ['policy_data'] : ['policy_data', `apps/${app}`, 'limits'],
    engine: plain ? null : trouble === 'refused' ? OLD_ENGINE : pick(ENGINES, 'engine', place),
    policy: {
      state,
      held: plain ? null : state === 'acknowledged' ? HEAD : BEFORE,
      behind: plain ? null : state === 'acknowledged' ? 0 : 1,
      since: plain ? connectedAt : stateSince,
      error: trouble === 'refused' ? REFUSAL : null,
    },
    data: {
      state: plain
        ? 'does_not_say'
        : trouble === 'away'
          ? 'away'
          : trouble === 'blocked' || trouble === 'failing'
            ? trouble
            : behind > 0
              ? 'behind'
              : 'at_head',
      at: plain ? null : DATA_HEAD - behind,
      newest: DATA_HEAD,
      behind: plain ? null : behind,
      at_least: trouble === 'away',
      lag_seconds: plain || behind === 0 ? null : 40 * behind,
    },
    health: { state: health, since: plain ? null : health === 'healthy' ? connectedAt + MINUTE : now - 6 * MINUTE },
    error: errorOf(trouble, now),
    connected_at: connectedAt,
    away_since: awaySince,
    reported_at: plain ? null : (awaySince ?? now - Math.round(chance('reported', place) * 5 * SECOND)),
  };
}

function errorOf(trouble: Trouble, now: number): FleetRow['error'] {
  switch (trouble) {
    case 'refused':
      return {
        kind: 'policy',
        place: `${REFUSAL.file}:${REFUSAL.line}`,
        text: REFUSAL.message,
        since: now - 12 * SECOND,
      };
    case 'blocked':
      return {
        kind: 'blocked',
        place: '/limits/orders',
        text: 'update 20,418 is blocked: a rule stands at this path',
        since: now - 6 * MINUTE,
      };
    case 'failing':
      return {
        kind: 'source',
        place: '/accounts',
        text: 'https://accounts.internal/export responds 503, tried 9 times',
        since: now - 6 * MINUTE,
      };
    case 'away':
      return { kind: 'away', place: '', text: 'no answer to pings for 20 s', since: now - 4 * MINUTE };
    default:
      return null;
  }
}

function countBy<T>(list: readonly T[], key: (one: T) => string): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const one of list) counts[key(one)] = (counts[key(one)] ?? 0) + 1;
  return counts;
}

const NEEDING = new Set(['refused', 'away']);

export function sampleSummary(rows: readonly FleetRow[], changes: readonly FleetChange[]): FleetSummary {
  const connected = rows.filter(({ connected }) => connected);
  return {
    total: rows.length,
    policy: { head: HEAD, counts: countBy(rows, ({ policy }) => policy.state) },
    data: {
      head: DATA_HEAD,
      counts: countBy(rows, ({ data }) => data.state),
      slowest_behind: Math.max(0, ...connected.map(({ data }) => data.behind ?? 0)),
      at_least: false,
    },
    health: countBy(rows, ({ health }) => health.state),
    needing: rows.filter(
      ({ policy, data, health }) =>
        NEEDING.has(policy.state) ||
        ['blocked', 'failing'].includes(data.state) ||
        ['unhealthy', 'not_ready'].includes(health.state),
    ).length,
    under_way: changes[0] ?? null,
    incomplete: null,
    limited: false,
  };
}

/** The convergence of a change over `took` milliseconds, `applied` of `clients`, as it is at `until`. */
function convergence(from: number, clients: number, applied: number, took: number): FleetChange['convergence'] {
  const points = Math.min(60, applied);
  const at = (share: number): number => from + 190 + Math.round((took - 190) * share ** 1.6);
  const reached = (share: number): number | null => {
    const needed = Math.max(1, Math.ceil(share * clients));
    return applied >= needed ? at(needed / applied) : null;
  };
  return {
    from,
    clients,
    first: applied > 0 ? at(0) : null,
    half: reached(0.5),
    p99: reached(0.99),
    last: applied === clients && applied > 0 ? at(1) : null,
    curve: Array.from({ length: points }, (_, index) => ({
      at: at(points === 1 ? 0 : index / (points - 1)),
      applied: Math.max(1, Math.round(((index + 1) / points) * applied)),
    })),
  };
}

/** The change that brings the served commit. */
function policyChange(rows: readonly FleetRow[], { now, since }: SampleOptions): FleetChange {
  const counts = countBy(rows, ({ policy: { state } }) => TRACE_OF[state] ?? 'pending');
  const applied = counts.applied ?? 0;
  const reporting = rows.length - (counts.unknown ?? 0);
  const done = applied === reporting;
  return {
    kind: 'policy',
    id: HEAD,
    update_id: null,
    title: 'Orders above 1,000 need two approvals',
    by: 'policy-team',
    at: since,
    topics: ['default:policy:.', 'default:policy:policy/orders'],
    size: 3,
    paths: [],
    state: done ? 'served' : 'under_way',
    error: null,
    counts,
    total: rows.length,
    convergence: convergence(since, reporting, applied, done ? 21_400 : now - since),
  };
}

const TRACE_OF: Readonly<Record<string, string>> = {
  acknowledged: 'applied',
  told: 'pending',
  not_told: 'not_heard',
  refused: 'refused',
  away: 'away',
  does_not_say: 'unknown',
};

const REASONS = [
  ['Roles of 3 accounts changed', 'accounts-db', '/accounts'],
  ['Stock limits of the night', 'stock-export', '/limits/stock'],
  ['Order limits by region', 'orders-admin', '/limits/orders'],
  ['Mail templates approved', 'mail-admin', '/mail/templates'],
  ['Account moved to eu-2', 'accounts-db', '/accounts/regions'],
] as const;

/** The newest changes, newest first. */
export function sampleChanges(rows: readonly FleetRow[], options: SampleOptions): FleetChange[] {
  const reporting = rows.filter(({ kind }) => kind === 'session').length;
  let at = options.since - 6 * MINUTE;
  const older = Array.from({ length: 44 }, (_, index): FleetChange => {
    at -= Math.round((4 + chance('gap', index) * 50) * MINUTE);
    if (index === 2) return refusedChange(at);
    if (index % 9 === 5) return olderCommit(index, at, reporting);
    return dataChange(index, at, reporting);
  });
  return [policyChange(rows, options), ...older];
}

function dataChange(index: number, at: number, reporting: number): FleetChange {
  const [title, by, path] = REASONS[index % REASONS.length] ?? REASONS[0];
  const total = index % 3 === 0 ? Math.ceil(reporting / 6) : reporting;
  const seq = DATA_HEAD - index;
  const blocked = index === 0 && total > 20 ? 1 : 0;
  return {
    kind: 'data',
    id: String(seq),
    update_id: createHash('sha1').update(`update ${seq}`).digest('hex').slice(0, 32),
    title: index % 7 === 4 ? '' : title,
    by,
    at,
    topics: index % 3 === 0 ? ['limits'] : ['policy_data'],
    size: 1 + (index % 4),
    paths: [path],
    state: 'served',
    error: blocked > 0 ? { message: 'a rule stands at this path', file: path, line: null, clients: blocked } : null,
    counts: { applied: total - blocked, ...(blocked > 0 ? { refused: blocked } : {}) },
    total,
    convergence: index > 30 ? null : convergence(at, total, total - blocked, 400 + index * 90),
  };
}

function olderCommit(index: number, at: number, reporting: number): FleetChange {
  return {
    kind: 'policy',
    id: commit(100 + index),
    update_id: null,
    title:
      ['Reports are readable in the own region only', 'Gateway checks the audience', 'Stock: rule names'][index % 3] ??
      '',
    by: 'policy-team',
    at,
    topics: ['default:policy:.'],
    size: 1 + (index % 5),
    paths: [],
    state: index % 2 === 0 ? 'replaced' : 'served',
    error: null,
    counts: { applied: reporting },
    total: reporting,
    convergence: convergence(at, reporting, reporting, 9000),
  };
}

/** A commit that the server does not serve. */
function refusedChange(at: number): FleetChange {
  return {
    kind: 'policy',
    id: NOT_SERVED,
    update_id: null,
    title: 'Mailer: one rule for all templates',
    by: 'policy-team',
    at,
    topics: [],
    size: 2,
    paths: [],
    state: 'refused',
    error: {
      message: 'rego_parse_error: unexpected } token',
      code: 'policy_commit_refused',
      file: 'policy/mailer/send.rego',
      line: 14,
    },
    counts: {},
    total: 0,
    convergence: null,
  };
}

export function sampleInstances(rows: readonly FleetRow[], now: number, count = 3): FleetInstance[] {
  const states = ['in_step', 'slow_backbone', 'behind'] as const;
  return INSTANCES.slice(0, count).map((name, index) => ({
    name,
    instance: createHash('sha1').update(name).digest('hex').slice(0, 16),
    here: index === 0,
    version: '0.1.0',
    started_at: now - (3 + index) * DAY,
    state: states[index] ?? 'in_step',
    seen_at: now - 400 * index,
    clients: rows.filter(({ instance, connected }) => instance === name && connected).length,
    log_at: DATA_HEAD - (index === 2 ? 2 : 0),
    behind: index === 2 ? 2 : 0,
    backbone_ms: count === 1 ? null : ([1.4, 48.2, 2.1][index] ?? null),
    loop_delay_ms: [3.1, 4.4, 11.8][index] ?? null,
    memory_bytes: (96 + index * 11) * 1024 ** 2,
    source: 'following',
  }));
}

/** All that a page shows of a sample fleet. */
export function sampleSnapshot(options: SampleOptions, { instances = 3 } = {}): FleetSnapshot {
  const rows = sampleRows(options);
  const changes = sampleChanges(rows, options);
  const all = sampleInstances(rows, options.now, instances);
  return {
    at: options.now,
    epoch: EPOCH,
    instance: all[0]?.instance ?? '',
    head: DATA_HEAD,
    summary: sampleSummary(rows, changes),
    source: { state: 'following', head: HEAD, error: null },
    clients: instances === 1 ? rows.map((row) => ({ ...row, instance: INSTANCES[0] })) : rows,
    changes,
    instances: all,
  };
}
