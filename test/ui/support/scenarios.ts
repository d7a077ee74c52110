import type { FleetDelta, FleetSnapshot, UiSession } from '../../../src/wire/fleet.js';
import {
  commit,
  REFUSAL,
  type SampleOptions,
  sampleChanges,
  sampleRows,
  sampleSnapshot,
  sampleSummary,
} from './sample-fleet.js';

/** What a fixture server shows. */
export interface Scenario {
  readonly about: string;
  /** Who looks, at first. */
  session(now: number): UiSession;
  /** What the stream begins with. null: nothing yet. */
  snapshot(now: number): FleetSnapshot | null;
  /** How the stream goes on by itself: `step` counts from 1. */
  readonly goes?: { readonly everyMs: number; delta(snapshot: FleetSnapshot, step: number, now: number): FleetDelta };
  /** The stream ends after the first event and cannot be had again. */
  readonly cut?: boolean;
}

const OPEN: UiSession = {
  signed_in: true,
  authentication: false,
  role: 'datasource',
  subject: null,
  topics: null,
  paths: null,
  ends_at: null,
  version: '0.1.0',
};
const HOUR = 3_600_000;
const DATASOURCE: UiSession = { ...OPEN, authentication: true, subject: 'deploy-job', ends_at: Date.UTC(2100, 0, 1) };
const LISTENER: UiSession = { ...DATASOURCE, role: 'listener', subject: 'dashboard' };
const SIGNED_OUT: UiSession = {
  ...OPEN,
  ...{ signed_in: false, authentication: true, role: null, environment: 'production' },
};

const RUNNING_MS = 13_400;

function halfway(now: number): SampleOptions {
  return { clients: 122, progress: 0.5, troubled: true, now, since: now - RUNNING_MS };
}

/** The rows of the big fleet that change in one step. */
const CHANGED_AT_A_TIME = 120;

export const SCENARIOS = {
  converging: {
    about: '122 clients, half of them hold the commit',
    session: () => DATASOURCE,
    snapshot: (now) => sampleSnapshot(halfway(now)),
  },
  moving: {
    about: 'the same, from none to all in half a minute',
    session: () => DATASOURCE,
    snapshot: (now) => sampleSnapshot({ ...halfway(now), progress: 0, since: now }),
    goes: {
      everyMs: 250,
      delta: (snapshot, step, now) =>
        moved(snapshot, { ...halfway(now), progress: Math.min(1, (step / 120) ** 0.7), since: snapshot.at }),
    },
  },
  converged: {
    about: 'all of 122 hold the commit',
    session: () => DATASOURCE,
    snapshot: (now) => sampleSnapshot({ ...halfway(now), progress: 1, troubled: false, since: now - HOUR }),
  },
  empty: {
    about: 'no client yet, no change',
    session: () => OPEN,
    snapshot: (now) => {
      const whole = sampleSnapshot({ ...halfway(now), clients: 0 }, { instances: 1 });
      return {
        ...whole,
        head: 0,
        source: null,
        changes: [],
        summary: {
          ...whole.summary,
          policy: { head: null, counts: {} },
          data: { ...whole.summary.data, head: 0 },
          under_way: null,
        },
      };
    },
  },
  loading: { about: 'no event of the stream yet', session: () => DATASOURCE, snapshot: () => null },
  lost: {
    about: 'the stream is cut and stays so',
    session: () => DATASOURCE,
    snapshot: (now) => sampleSnapshot(halfway(now)),
    cut: true,
  },
  incomplete: {
    about: 'an instance is silent: there may be other clients',
    session: () => DATASOURCE,
    snapshot: (now) => {
      const whole = sampleSnapshot(halfway(now));
      const incomplete = 'policysync-2 has said nothing for 40 s: its clients may be missing';
      return {
        ...whole,
        summary: { ...whole.summary, incomplete },
        instances: whole.instances.map((one, index) =>
          index === 2 ? { ...one, state: 'silent', seen_at: now - 40_000 } : one,
        ),
      };
    },
  },
  limited: {
    about: 'a token that is limited to topics',
    session: () => ({ ...LISTENER, topics: ['limits', 'apps/orders'], paths: ['/limits'] }),
    snapshot: (now) => {
      const options = { ...halfway(now), clients: 40 };
      const whole = sampleSnapshot(options);
      return {
        ...whole,
        summary: { ...whole.summary, limited: true },
        changes: whole.changes.map((one) => ({ ...one, by: null, title: one.kind === 'data' ? '' : one.title })),
      };
    },
  },
  listener: {
    about: 'a token that may look, not act',
    session: () => LISTENER,
    snapshot: (now) => sampleSnapshot(halfway(now)),
  },
  open: { about: 'no authentication', session: () => OPEN, snapshot: (now) => sampleSnapshot(halfway(now)) },
  'signed-out': {
    about: 'nobody is signed in',
    session: () => SIGNED_OUT,
    snapshot: (now) => sampleSnapshot(halfway(now)),
  },
  expiring: {
    about: 'the session ends in two minutes',
    session: (now) => ({ ...LISTENER, ends_at: now + 120_000 }),
    snapshot: (now) => sampleSnapshot(halfway(now)),
  },
  many: {
    about: '3,000 clients, 120 of them change 4 times a second',
    session: () => DATASOURCE,
    snapshot: (now) => sampleSnapshot({ ...halfway(now), clients: 3000 }),
    goes: { everyMs: 250, delta: (snapshot, step, now) => flickered(snapshot, step, now) },
  },
  refused: {
    about: 'the server does not serve the newest commit',
    session: () => DATASOURCE,
    snapshot: (now) => {
      const whole = sampleSnapshot({ ...halfway(now), progress: 1, troubled: false, since: now - HOUR });
      const message = `${REFUSAL.file}:${REFUSAL.line}: rego_parse_error: unexpected assign token`;
      const newest = whole.changes[0];
      if (newest === undefined) return whole;
      const change = {
        ...newest,
        id: commit(9),
        title: 'Orders: approvers by region',
        at: now - 9000,
        state: 'refused',
        counts: {},
        total: 0,
        convergence: null,
        error: { message, code: 'policy_commit_refused', file: REFUSAL.file, line: REFUSAL.line },
      };
      return {
        ...whole,
        changes: [change, ...whole.changes],
        source: {
          state: 'following',
          head: newest.id,
          refused: change.id,
          error: message,
          code: 'policy_commit_refused',
        },
      };
    },
  },
  alone: {
    about: 'one instance, without a backbone',
    session: () => OPEN,
    snapshot: (now) => sampleSnapshot({ ...halfway(now), clients: 9 }, { instances: 1 }),
  },
  markup: {
    about: 'names and texts that look like markup',
    session: () => DATASOURCE,
    snapshot: (now) => {
      const whole = sampleSnapshot(halfway(now));
      const evil = '<img src=x onerror="document.title=1">&lt;b&gt;{{1}}';
      return {
        ...whole,
        clients: whole.clients.map((row, index) =>
          index < 8 ? { ...row, id: `${evil}-${index}`, labels: { app: evil, zone: evil } } : row,
        ),
        changes: whole.changes.map((one) => ({ ...one, title: evil, by: evil })),
        summary: {
          ...whole.summary,
          under_way: whole.summary.under_way && { ...whole.summary.under_way, title: evil, by: evil },
        },
      };
    },
  },
} as const satisfies Record<string, Scenario>;

export type ScenarioName = keyof typeof SCENARIOS;

/** What changed on the way from one sample to the next. */
function moved(before: FleetSnapshot, options: SampleOptions): FleetDelta {
  const rows = sampleRows(options);
  const changes = sampleChanges(rows, options);
  const old = new Map(before.clients.map((row) => [row.id, row]));
  return {
    at: options.now,
    summary: sampleSummary(rows, changes),
    clients: rows.filter((row) => old.get(row.id)?.policy.state !== row.policy.state),
    changes: changes.slice(0, 1),
  };
}

/** Some rows of a big fleet with other figures. */
function flickered(before: FleetSnapshot, step: number, now: number): FleetDelta {
  const { clients } = before;
  const from = (step * CHANGED_AT_A_TIME) % Math.max(1, clients.length);
  const changed = clients.slice(from, from + CHANGED_AT_A_TIME).map((row) => {
    const behind = (row.data.behind ?? 0) === 0 ? 1 + (step % 3) : 0;
    const at = row.data.newest - behind;
    const data = {
      ...row.data,
      at,
      behind,
      state: behind > 0 ? 'behind' : 'at_head',
      lag_seconds: behind > 0 ? 1 : null,
    };
    return row.kind === 'plain' || !row.connected ? row : { ...row, data, reported_at: now };
  });
  const now_ = new Map(changed.map((row) => [row.id, row]));
  const all = clients.map((row) => now_.get(row.id) ?? row);
  return { at: now, summary: sampleSummary(all, before.changes), clients: changed };
}
