import { ALL_TOPICS } from '../../wire/topics.js';
import { type ClientLimits, isVisible, type ViewDeps } from '../clients/client-view.js';
import { type KnownClient, reportedAtOf } from '../clients/known-client.js';
import type { Gathered } from './gathered.js';
import { rowOf } from './row.js';
import type { Slices } from './slices.js';
import type { Standings } from './standing.js';

/** The row of a client, printed. */
export interface RowEntry {
  readonly name: string;
  readonly client: KnownClient;
  /** A number that no other client of the list has. */
  readonly slot: number;
  /** As JSON. */
  readonly text: string;
  /** The same without what changes all the time. */
  readonly shape: string;
  readonly reportedAt: number | null;
  readonly standings: Standings;
  readonly isNeeding: boolean;
  /** Data updates that it is behind, if it is connected. */
  readonly behind: number;
  readonly isAtLeast: boolean;
}

/** What a look at the fleet has found. */
export interface RowsLook {
  /** Rows whose client, or what it is compared with, is another one than before. */
  readonly made: readonly RowEntry[];
  /** Those of them whose client is another one. */
  readonly changed: readonly RowEntry[];
  /** Those of them that read differently. */
  readonly shown: readonly RowEntry[];
  readonly gone: readonly RowEntry[];
}

/** Rows between two looks at the clock. */
const AT_ONCE = 20;
/** After this time a row is sent for a new time of report alone. */
const REPORTED_STALE_MS = 60_000;

/** The rows of a caller. One is made anew only if its client, policy or data has changed. */
export class FleetRows {
  readonly #limits: ClientLimits;
  readonly #deps: ViewDeps;
  readonly #entries = new Map<string, RowEntry>();
  readonly #freeSlots: number[] = [];
  #slots = 0;
  #stamp = '';

  constructor(limits: ClientLimits, deps: ViewDeps) {
    this.#limits = limits;
    this.#deps = deps;
  }

  get entries(): ReadonlyMap<string, RowEntry> {
    return this.#entries;
  }

  /**
   * Looks at all clients, changes nothing. `touched`: topics with new updates; undefined: unknown.
   */
  async look(
    { named, policy }: Gathered,
    touched: ReadonlySet<string> | undefined,
    slices: Slices,
  ): Promise<RowsLook & { readonly stamp: string }> {
    const stamp = stampOf(policy.commit);
    const isWhole = touched === undefined || stamp !== this.#stamp;
    const made: RowEntry[] = [];
    const changed: RowEntry[] = [];
    const shown: RowEntry[] = [];
    const seen = new Set<string>();
    let looked = 0;
    for (const [name, client] of named) {
      if (++looked % AT_ONCE === 0 && slices.isDue) await slices.pause();
      if (!isVisible(client, this.#limits)) continue;
      seen.add(name);
      const before = this.#entries.get(name);
      const isSame = before?.client === client && !isStale(reportedAtOf(client), before);
      if (isSame && !isWhole && !hasNews(client, touched)) continue;
      const entry = this.#make(name, client, policy, before);
      made.push(entry);
      if (entry.client !== before?.client) changed.push(entry);
      if (entry.text !== before?.text) shown.push(entry);
    }
    const gone = [...this.#entries.values()].filter(({ name }) => !seen.has(name));
    return { stamp, made, changed, shown, gone };
  }

  /** Takes over what {@link look} has found. */
  take({ stamp, made, gone }: RowsLook & { readonly stamp: string }): void {
    this.#stamp = stamp;
    for (const entry of made) this.#entries.set(entry.name, entry);
    for (const { name, slot } of gone) {
      this.#entries.delete(name);
      this.#freeSlots.push(slot);
    }
  }

  #make(name: string, client: KnownClient, policy: Gathered['policy'], before: RowEntry | undefined): RowEntry {
    const { row, standings, isNeeding } = rowOf(client, { name, policy, limits: this.#limits }, this.#deps);
    const { lag_seconds: lag, behind, at_least: isAtLeast } = row.data;
    const { reported_at: reportedAt } = row;
    const shape = JSON.stringify({ ...row, data: { ...row.data, lag_seconds: null }, reported_at: null });
    const isSame = before !== undefined && shape === before.shape && !isStale(reportedAt, before);
    return {
      ...{ name, client, standings, isNeeding, isAtLeast },
      behind: row.connected ? (behind ?? 0) : 0,
      slot: before?.slot ?? this.#freeSlots.pop() ?? this.#slots++,
      shape: isSame ? before.shape : shape,
      text: isSame ? before.text : withTimes(shape, lag, reportedAt),
      reportedAt: isSame ? before.reportedAt : reportedAt,
    };
  }
}

/** Whether the time of the last report alone is a reason to send a row. */
function isStale(reportedAt: number | null, before: Pick<RowEntry, 'reportedAt'>): boolean {
  return (reportedAt ?? 0) - (before.reportedAt ?? 0) >= REPORTED_STALE_MS;
}

/** Puts the times in. Inside a text of JSON a backslash precedes the quotes of such a name. */
function withTimes(shape: string, lag: number | null, reportedAt: number | null): string {
  return shape
    .replace('"lag_seconds":null', `"lag_seconds":${lag}`)
    .replace('"reported_at":null', `"reported_at":${reportedAt}`);
}

function stampOf(commit: Gathered['policy']['commit']): string {
  return commit === undefined ? '' : `${commit.hash} ${commit.announcedMs}`;
}

/** Whether there are new updates of a topic of the client. */
function hasNews({ topics }: KnownClient, touched: ReadonlySet<string>): boolean {
  return touched.size > 0 && topics.some((topic) => topic === ALL_TOPICS || touched.has(topic));
}
