import { createHash } from 'node:crypto';
import type { ClientAnswer } from '../../../src/wire/client-details.js';
import type { ClientView } from '../../../src/wire/clients.js';
import type { FleetRow, FleetSnapshot } from '../../../src/wire/fleet.js';
import type {
  DataDocument,
  DocumentsAnswer,
  FileDiff,
  InstancesAnswer,
  PolicyDiffAnswer,
  PolicyFilesAnswer,
  PolicySourceAnswer,
} from '../../../src/wire/fleet-views.js';
import { LATENCY_BUCKETS } from '../../../src/wire/latency-buckets.js';
import type { TraceAnswer, TraceClient } from '../../../src/wire/trace.js';
import { BEFORE, chance, commit, DATA_HEAD, DAY, EPOCH, HEAD, NOT_SERVED, REFUSAL } from './sample-fleet.js';

const MINUTE = 60_000;

/** `GET /clients/{id}` of a row. */
export function clientAnswer(snapshot: FleetSnapshot, row: FleetRow): ClientAnswer {
  const { at: now } = snapshot;
  const plain = row.kind === 'plain';
  return {
    now,
    epoch: EPOCH,
    head: DATA_HEAD,
    policy_head: HEAD,
    client: clientView(row, now),
    topics: row.topics.map((topic, index) => ({
      topic,
      wanted: DATA_HEAD - index * 21,
      held: plain ? null : DATA_HEAD - index * 21 - (index === 0 ? (row.data.behind ?? 0) : 0),
      behind: plain ? null : index === 0 ? row.data.behind : 0,
      last: ['Roles of 3 accounts changed', 'Order limits by region', 'Stock limits of the night'][index] ?? null,
    })),
    details: plain || !row.connected ? null : clientDetails(row, now),
    details_missing: plain ? 'plain' : row.connected ? null : 'away',
    source:
      row.policy.error === null
        ? null
        : {
            file: REFUSAL.file,
            line: REFUSAL.line,
            first: REFUSAL.line - 2,
            lines: [
              'deny contains message if {',
              '\tinput.order.amount > data.limits.orders[input.order.region]',
              '\tmessage := strings.render_template("{{.id}} needs two approvals", input.order)',
              '\tcount(input.order.approvals) < 2',
              '}',
            ],
          },
    same_error: row.policy.error === null ? 0 : snapshot.clients.filter(({ policy }) => policy.error !== null).length,
  };
}

function clientView(row: FleetRow, now: number): ClientView {
  const plain = row.kind === 'plain';
  const [kind = '', version = null] = row.engine?.split(' ') ?? [];
  return {
    client_id: row.id,
    own_id: plain ? null : row.id,
    subject: null,
    kind: row.kind,
    connected: row.connected,
    connected_at: row.connected_at,
    away_since: row.away_since,
    address: row.address,
    instance: row.instance,
    duplicates: 0,
    topics: row.topics,
    ready: plain ? null : row.health.state !== 'not_ready',
    healthy: plain ? null : row.health.state === 'healthy',
    since: row.health.since,
    reported_at: row.reported_at,
    engine: plain ? null : { kind, version, online: true, error: null, since: row.connected_at },
    policy: {
      wanted: HEAD,
      held: row.policy.held,
      current: plain ? null : row.policy.held === HEAD,
      error: row.policy.error,
      since: row.policy.since,
    },
    data: {
      newest: DATA_HEAD,
      applied: row.data.at,
      wanted: Object.fromEntries(row.topics.map((topic, index) => [topic, DATA_HEAD - index * 21])),
      held: plain ? null : { epoch: EPOCH, applied_through: row.data.at ?? 0, applied_beyond: [], unresolved: [] },
      lag_updates: row.data.behind,
      lag_seconds: row.data.lag_seconds,
      lag_at_least: row.data.at_least,
      blocked: row.data.state === 'blocked' ? [DATA_HEAD - 3, DATA_HEAD] : [],
    },
    failing: failingOf(row, now - 6 * MINUTE),
    last_error:
      row.error === null
        ? null
        : { path: row.error.place, error: row.error.text, kind: row.error.kind, at: row.error.since ?? now },
  };
}

/** What a client reports of what it cannot write: also why an update is blocked. */
function failingOf({ error }: FleetRow, since: number): ClientView['failing'] {
  if (error?.kind === 'source') return [{ path: error.place, error: error.text, kind: 'source', since }];
  if (error?.kind !== 'blocked') return [];
  return [
    { path: error.place, error: error.text, kind: 'refused', since },
    { path: '/limits/stock', error: 'the engine refuses it: no object', kind: 'refused', since },
  ];
}

function clientDetails(row: FleetRow, now: number): ClientAnswer['details'] {
  const refused = row.policy.error !== null;
  return {
    version: '0.1.0',
    log_level: refused ? 'info' : 'debug',
    started_at: row.connected_at,
    orphaned: refused
      ? [{ path: '/limits/trial', reason: 'no update or entry of the log has it', since: now - 6 * DAY }]
      : [],
    orphaned_total: refused ? 1 : 0,
    ...(!refused && { cannot: { drift_check: 'the drift check is off at this client' } }),
    transactions: Array.from({ length: 12 }, (_, index) => {
      const at = now - 12_000 - index * 7 * MINUTE;
      if (index === 0 || index === 7) {
        const outcome = index === 0 && refused ? 'refused' : 'applied';
        return {
          kind: 'policy' as const,
          id: index === 0 ? HEAD : BEFORE,
          seq: null,
          outcome,
          at,
          took_ms: 38,
          wrote: ['policy/orders/approval.rego', 'policy/lib/text.rego', 'policy/orders/data.json'],
          wrote_total: 3,
          error: outcome === 'refused' ? `${REFUSAL.file}:${REFUSAL.line}: ${REFUSAL.message}` : null,
        };
      }
      const seq = DATA_HEAD - index;
      return {
        kind: 'data' as const,
        id: createHash('sha1').update(`update ${seq}`).digest('hex').slice(0, 32),
        seq,
        outcome: 'applied',
        at,
        took_ms: 4 + (index % 9),
        wrote: ['/accounts/roles', '/limits/orders'].slice(0, 1 + (index % 2)),
        wrote_total: 1 + (index % 2),
        error: null,
      };
    }),
    rego: { mode: 'mixed', v0: 2, v1: 31 },
    drift: refused ? { checked_at: now - 3 * MINUTE, repaired: 0, error: null } : null,
  };
}

/** Paths with what a sample fleet has at them. */
const PATHS: readonly string[] = [
  '/accounts',
  '/accounts/regions',
  '/accounts/roles',
  '/accounts/suspended',
  '/calendar/holidays',
  '/calendar/hours',
  '/gateway/audiences',
  '/gateway/keys',
  '/gateway/routes/internal',
  '/gateway/routes/public',
  '/limits/mailer',
  '/limits/orders',
  '/limits/reports',
  '/limits/stock/eu-1',
  '/limits/stock/eu-2',
  '/limits/stock/us-1',
  '/mail/senders',
  '/mail/templates',
  '/orders/approvers',
  '/orders/regions',
  '/reports/exports',
  '/reports/owners',
  '/stock/suppliers',
  '/stock/warehouses',
];

/** `GET /data/documents`, on one page. */
export function documentsAnswer(snapshot: FleetSnapshot): DocumentsAnswer {
  const documents = PATHS.map((path, index): DataDocument => {
    const base = index % 4 === 0;
    const inline = index % 3 === 1;
    const seq = base ? 1 : DATA_HEAD - Math.floor(chance('seq', path) * 3000);
    return {
      path,
      origin: base ? 'base' : 'update',
      source: inline ? 'inline' : `https://${path.split('/')[1]}.internal${path}.json`,
      method: index % 5 === 3 ? 'PATCH' : 'PUT',
      seq,
      update_id: base ? null : createHash('sha1').update(`update ${seq}`).digest('hex').slice(0, 32),
      reason: base ? null : 'Order limits by region',
      publisher: base ? null : 'orders-admin',
      bytes: inline ? 200 + Math.round(chance('bytes', path) * 90_000) : null,
      hash: inline ? createHash('sha256').update(path).digest('hex') : null,
      changed_at: base ? null : snapshot.at - Math.round(chance('changed', path) * 9 * DAY),
      retained_until: index % 6 === 5 ? snapshot.at + 12 * DAY : null,
      topics: path.startsWith('/limits') ? ['limits'] : ['policy_data'],
      clients: snapshot.clients.length,
      refused_by: path === '/limits/orders' ? 3 : 0,
      refusal:
        path === '/limits/orders'
          ? { kind: 'refused', clients: 2, text: 'the engine refuses it: a rule stands at this path' }
          : null,
      patches: index % 5 === 3 ? 2 : 0,
      versions: 1,
    };
  });
  const about = { external_source: null, incomplete: null };
  return { epoch: EPOCH, head: DATA_HEAD, total: documents.length, documents, next: null, ...about };
}

/** `GET /data/log` of one update: its value has a number with more digits than JavaScript keeps. */
export function logText(path: string, seq: number): string {
  const entry = `{"dst_path":${JSON.stringify(path)},"data":{"most":12345678901234567890,"unit":"<b>eur</b>"}}`;
  return `{"epoch":"${EPOCH}","head":${DATA_HEAD},"next":null,"updates":[{"seq":${seq},"entries":[${entry}]}]}`;
}

const MODULES: readonly (readonly [path: string, name: string, bytes: number])[] = [
  ['policy/lib/text.rego', 'lib.text', 912],
  ['policy/lib/time.rego', 'lib.time', 1430],
  ['policy/accounts/allow.rego', 'accounts', 3120],
  ['policy/gateway/audience.rego', 'gateway', 2210],
  ['policy/gateway/routes.rego', 'gateway.routes', 5102],
  ['policy/mailer/send.rego', 'mailer', 1877],
  ['policy/orders/approval.rego', 'orders', 4260],
  ['policy/orders/regions.rego', 'orders.regions', 988],
  ['policy/reports/export.rego', 'reports', 2750],
  ['policy/stock/limits.rego', 'stock', 3301],
];

/** `GET /policy/files`. */
export function filesAnswer(hash: string): PolicyFilesAnswer {
  const data: readonly (readonly [string, string, number, string | null])[] = [
    ['policy/data.json', 'data', 310, null],
    ['policy/orders/data.json', 'data.orders', 1290, null],
    ['policy/orders/data.yaml', 'data.orders', 640, 'policy/orders/data.json replaces it'],
  ];
  const all = [
    ...MODULES.map(([path, name, bytes]) => ({ path, kind: 'policy' as const, package: name, bytes, warning: null })),
    ...data.map(([path, name, bytes, warning]) => ({ path, kind: 'data' as const, package: name, bytes, warning })),
  ];
  return {
    hash,
    files: all.map((file, index) => ({ ...file, order: index + 1, listed: index < 4 })),
    total: all.length,
    manifests: ['.manifest', 'policy/orders/.manifest'],
    ignored: 6,
    warnings: [
      { file: 'policy/orders/data.yaml', text: 'policy/orders/data.yaml: policy/orders/data.json replaces it' },
    ],
  };
}

/** `GET /policy/source`. */
export function sourceAnswer(snapshot: FleetSnapshot): PolicySourceAnswer {
  const titles = [
    'Orders above 1,000 need two approvals',
    'Reports are readable in the own region only',
    'Gateway checks the audience',
    'Stock: limits by warehouse',
    'Mailer: one rule for all templates',
    'Accounts: suspended ones are denied',
  ];
  const hashes = [HEAD, BEFORE, commit(1), commit(4), NOT_SERVED];
  const commits = titles.map((title, index) => ({
    hash: hashes[index] ?? commit(20 + index),
    title,
    author: 'policy-team',
    at: index === 5 ? 0 : snapshot.at - 20_000 - index * 5 * 60 * MINUTE,
    state: index === 0 ? 'head' : index === 4 ? 'refused' : index === 3 ? 'replaced' : 'served',
    error:
      index === 4
        ? {
            message: 'rego_parse_error: unexpected } token',
            code: 'policy_commit_refused',
            ...{ file: 'policy/mailer/send.rego', line: 14 },
          }
        : null,
  }));
  const refused = snapshot.source?.refused;
  const newest = {
    hash: refused ?? '',
    title: 'Orders: approvers by region',
    author: 'policy-team',
    at: snapshot.at - 9000,
    state: 'refused',
    error: { message: snapshot.source?.error ?? '', code: 'policy_commit_refused' },
  };
  return {
    type: 'GIT',
    source: 'https://git.internal/policies.git',
    branch: 'main',
    status: snapshot.source,
    last_look: snapshot.at - 11_000,
    last_look_result: 'same',
    commits: refused === undefined ? commits : [newest, ...commits],
  };
}

/** `GET /policy/diff`. */
export function diffAnswer(from: string | null, to: string): PolicyDiffAnswer {
  const line = (kind: 'same' | 'added' | 'removed', old: number | null, fresh: number | null, text: string) => ({
    kind,
    old,
    new: fresh,
    text,
  });
  const files: FileDiff[] = [
    {
      path: 'policy/orders/approval.rego',
      change: 'modified',
      added: 4,
      removed: 2,
      binary: false,
      truncated: false,
      hunks: [
        {
          header: '@@ -22,8 +22,10 @@ package orders',
          lines: [
            line('same', 22, 22, ''),
            line('same', 23, 23, '# An order needs approvals above the limit of its region.'),
            line('same', 24, 24, ''),
            line('removed', 25, null, 'deny contains "an approval is missing" if {'),
            line('removed', 26, null, '\tinput.order.amount > 5000'),
            line('added', null, 25, 'deny contains message if {'),
            line('added', null, 26, '\tinput.order.amount > data.limits.orders[input.order.region]'),
            line('added', null, 27, '\tmessage := strings.render_template("{{.id}} needs two approvals", input.order)'),
            line('added', null, 28, '\tcount(input.order.approvals) < 2'),
            line('same', 27, 29, '}'),
            line('same', 28, 30, ''),
          ],
        },
      ],
    },
    {
      path: 'policy/lib/text.rego',
      change: 'added',
      added: 3,
      removed: 0,
      binary: false,
      truncated: false,
      hunks: [
        {
          header: '@@ -0,0 +1,3 @@',
          lines: [
            line('added', null, 1, 'package lib.text'),
            line('added', null, 2, ''),
            line('added', null, 3, 'is_blank(text) if trim_space(text) == ""'),
          ],
        },
      ],
    },
    {
      path: 'policy/orders/data.json',
      change: 'modified',
      added: 0,
      removed: 0,
      binary: true,
      truncated: false,
      hunks: [],
    },
  ];
  return { from, to, files, total: files.length };
}

/** Of the updates, by bucket, and what took longer. */
const LATENCY_SHARES = [0.02, 0.2, 0.4, 0.2, 0.1, 0.05, 0.02, 0.008, 0.002];

/** `GET /instances`: an hour of each. */
export function instancesAnswer(snapshot: FleetSnapshot): InstancesAnswer {
  const minute = Math.floor(snapshot.at / MINUTE) * MINUTE;
  const alone = snapshot.instances.length === 1;
  return {
    backbone: alone ? 'none' : 'postgres',
    durability: alone
      ? { kind: 'durable', text: 'An update is on the disk of this server before it is acknowledged.' }
      : { kind: 'durable', text: 'An update is on the disk of the backbone before it is acknowledged.' },
    instances: snapshot.instances,
    incomplete: null,
    log: { epoch: EPOCH, head: DATA_HEAD, begins_at: 11_902, documents: 24, bytes: 18.4 * 1024 ** 2 },
    buckets: [...LATENCY_BUCKETS],
    budgets: [],
    hours: snapshot.instances.map(({ instance, name, clients }, index) => ({
      instance,
      name,
      points: Array.from({ length: snapshot.summary.limited ? 0 : 60 }, (_, one) => {
        const wave = 1 + Math.sin((one + index * 9) / 7) * 0.6 + chance(name, one) * 0.5;
        const publishes = Math.round(wave * 24);
        return {
          at: minute - (59 - one) * MINUTE,
          publishes,
          publish_refused: one === 41 ? 3 : 0,
          publish_p50_ms: 2.1 + wave,
          publish_p99_ms: 8 + wave * 6 + (index === 1 && one > 40 && one < 52 ? 60 : 0),
          deliveries: publishes * clients,
          backbone_ms: alone ? null : 1.2 + chance('backbone', name, one) + (index === 1 && one > 40 ? 44 : 0),
          clients,
          latency: LATENCY_SHARES.map((share) => Math.round(publishes * clients * share)),
        };
      }),
    })),
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

/** `GET /trace/{id}` of a change of the snapshot; undefined: nobody knows it. */
export function traceAnswer(snapshot: FleetSnapshot, id: string): TraceAnswer | undefined {
  const change = snapshot.changes.find((one) => one.id === id || one.update_id === id);
  if (change === undefined) return undefined;
  const announced = change.at + 24;
  const isNewest = change.id === HEAD;
  const stages =
    change.kind === 'policy'
      ? change.state === 'refused'
        ? ['found', 'refused']
        : ['found', 'checked', 'agreed', 'served', 'announced']
      : ['received', 'recorded', 'durable', 'announced'];
  const clients = change.state === 'refused' ? [] : snapshot.clients.slice(0, change.total);
  return {
    kind: change.kind === 'policy' ? 'commit' : 'update',
    id: change.kind === 'policy' ? change.id : (change.update_id ?? ''),
    ...(change.kind === 'data'
      ? {
          seq: Number(change.id),
          publisher: change.by,
          reason: change.title,
          topics: change.topics,
          paths: change.paths,
        }
      : { state: change.state === 'under_way' ? 'served' : change.state }),
    epoch: EPOCH,
    ...(change.state === 'refused' && change.error !== null
      ? { error: { message: change.error.message, code: 'policy_commit_refused' } }
      : {}),
    now: snapshot.at,
    instance: snapshot.instance,
    stages: stages.map((stage, index) => ({
      stage,
      at: change.at + index * 6,
      instance: stage === 'recorded' ? null : snapshot.instance,
      ...(stage === 'announced' ? { subscribers: change.total } : {}),
    })),
    in_memory: change.convergence !== null,
    notes: change.convergence === null ? ['Times are not in memory any more.'] : [],
    counts: change.counts,
    convergence: change.convergence,
    total: clients.length,
    clients: clients
      .map((row) => traceClient(row, isNewest ? (TRACE_OF[row.policy.state] ?? 'pending') : 'applied', announced))
      .sort((a, b) => (a.client_id < b.client_id ? -1 : 1)),
    next: null,
  };
}

function traceClient(row: FleetRow, state: string, announced: number): TraceClient {
  const heard = ['applied', 'refused', 'pending'].includes(state)
    ? announced + 3 + Math.round(chance('heard', row.id) * 40)
    : null;
  const ended = heard === null ? null : heard + 80 + Math.round(chance('ended', row.id) * 6000);
  return {
    client_id: row.id,
    kind: row.kind,
    connected: row.connected,
    instance: row.instance,
    state,
    reason: state === 'refused' ? REFUSAL.message : state === 'unknown' ? 'an OPAL client does not say' : null,
    file: state === 'refused' ? REFUSAL.file : null,
    line: state === 'refused' ? REFUSAL.line : null,
    was_there: row.kind === 'session',
    heard_at: heard,
    fetched_at: state === 'pending' || ended === null ? null : ended - 60,
    applied_at: state === 'applied' ? ended : null,
    refused_at: state === 'refused' ? ended : null,
    applied_seen_at: state === 'applied' && ended !== null ? ended + 12 : null,
    refused_seen_at: state === 'refused' && ended !== null ? ended + 12 : null,
    reported_at: row.reported_at,
  };
}
