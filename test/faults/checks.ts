import { applied, isAtOrBelow, type Json, marks, type PlacedEntry } from './model.js';
import type { Sample } from './sampler.js';

/** What the samples of one client are judged by. */
export interface Judged {
  readonly client: string;
  readonly samples: readonly Sample[];
  /** All entries that concern this client, in order. */
  readonly entries: readonly PlacedEntry[];
  readonly epoch: string;
}

/** Something that must not have been seen, and when. */
export interface Violation {
  readonly client: string;
  readonly atMs: number;
  readonly what: string;
}

/**
 * Holds what was seen of an engine against the order of the log (docs/internals/faults.md has the promises):
 * - per path, never an older entry after a newer one, in one life of the client, restarts of its engine included;
 * - nothing that was gone comes back, while the engine is filled;
 * - nothing older below something newer;
 * - what a position says is in, is in, and so is the commit of a "yes" of the page;
 * - never an older commit after a newer one.
 */
export function judge(judged: Judged): Violation[] {
  const { client, samples, entries, epoch } = judged;
  const places = new Map(entries.map((entry, at) => [entry.n, at]));
  const violations: Violation[] = [];
  const reported = new Set<string>();
  const replay = new Replay(entries);
  let clientLife = '';
  let life = '';
  let held = new Map<string, number>();
  /** The newest that each path had in this life of the client; and what was there before it was gone. */
  let newest = new Map<string, number>();
  let gone = new Map<string, number>();
  let commit: number | undefined;

  for (const sample of samples) {
    const report = (key: string, what: string): void => {
      if (reported.has(key)) return;
      reported.add(key);
      violations.push({ client, atMs: sample.atMs, what });
    };
    const [ofClient = ''] = sample.life.split('/');
    if (ofClient !== clientLife) {
      newest = new Map();
      commit = undefined;
    }
    if (sample.life !== life) {
      held = new Map();
      gone = new Map();
    }
    clientLife = ofClient;
    life = sample.life;
    for (const [path, n] of sample.changes) {
      const before = held.get(path);
      if (n === undefined) {
        held.delete(path);
        if (before !== undefined && sample.isComplete) gone.set(path, before);
        continue;
      }
      held.set(path, n);
      const at = path.startsWith('/live/') ? n : places.get(n);
      if (at === undefined) {
        report(`phantom ${path} ${n}`, `${path} has entry ${n}, which is not in the log`);
        continue;
      }
      const top = newest.get(path) ?? -1;
      if (at < top) report(`order ${path} ${n}`, `${path} went back to ${named(at)} from ${named(top)}`);
      newest.set(path, Math.max(top, at));
      if (sample.isComplete && gone.get(path) === n)
        report(`back ${path} ${n}`, `${path} had lost ${named(at)} and has it again`);
    }
    for (const [path, n] of sample.changes) {
      const at = n === undefined ? undefined : places.get(n);
      const above = at === undefined ? undefined : nearestAbove(held, path);
      const aboveAt = above === undefined ? undefined : places.get(above[1]);
      if (
        above !== undefined &&
        at !== undefined &&
        aboveAt !== undefined &&
        at < aboveAt &&
        !path.startsWith('/live/')
      ) {
        report(
          `under ${path} ${n}`,
          `${path} has ${named(at)} below ${above[0]} with ${named(aboveAt)}, which is newer`,
        );
      }
    }
    if (sample.commit !== undefined) {
      if (commit !== undefined && sample.commit < commit) {
        report(`commit ${sample.commit}`, `static data went back to commit ${sample.commit} from ${commit}`);
      }
      commit = Math.max(commit ?? 0, sample.commit);
    }
    if (sample.saidCommit !== undefined && sample.isComplete && (sample.commit ?? 0) < sample.saidCommit) {
      const held = sample.commit === undefined ? 'no commit' : `commit ${sample.commit}`;
      report(
        `page ${sample.saidCommit}`,
        `the page says that all hold commit ${sample.saidCommit}, and it has ${held}`,
      );
    }
    if (sample.position !== undefined && sample.position.epoch === epoch && sample.isComplete) {
      const { through, unresolved } = sample.position;
      for (const [path, what] of replay.missing({ held, had: newest }, through, new Set(unresolved), places)) {
        report(`position ${path}`, `it says that all up to ${through} is in${listed(unresolved)}, and ${what}`);
      }
    }
  }
  return violations;

  function named(at: number): string {
    const entry = entries[at];
    return entry === undefined
      ? `version ${at}`
      : `entry ${entry.n} (seq ${entry.seq}, ${entry.what.method} ${entry.path})`;
  }
}

/** Seqs that a position lists as open; a few of many. */
function listed(unresolved: readonly number[]): string {
  if (unresolved.length === 0) return '';
  const more = unresolved.length > 10 ? ` and ${unresolved.length - 10} more` : '';
  return ` but ${unresolved.slice(0, 10).join(', ')}${more}`;
}

function nearestAbove(held: ReadonlyMap<string, number>, path: string): [string, number] | undefined {
  for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1)) {
    const above = path.slice(0, at);
    const n = held.get(above);
    if (n !== undefined) return [above, n];
  }
  return undefined;
}

/** The desired state as of a position. Positions mostly grow; one that goes back (a client from its backup) starts anew. */
class Replay {
  readonly #entries: readonly PlacedEntry[];
  #value: Json = {};
  #count = 0;
  #marks: Map<string, number> | undefined;

  constructor(entries: readonly PlacedEntry[]) {
    this.#entries = entries;
  }

  /** `had`: the paths that this life of the client has had. */
  *missing(
    { held, had }: { held: ReadonlyMap<string, number>; had: ReadonlyMap<string, number> },
    through: number,
    unresolved: ReadonlySet<number>,
    places: ReadonlyMap<number, number>,
  ): Generator<[path: string, what: string]> {
    const expected = this.#at(through);
    const open = this.#entries.filter(({ seq }) => unresolved.has(seq));
    const isOpen = (path: string): boolean =>
      open.some((entry) => isAtOrBelow(path, entry.path) || isAtOrBelow(entry.path, path));
    for (const [path, n] of expected) {
      if (path.startsWith('/live/') || !/^\/(t|probe)\//.test(path)) continue;
      const found = held.get(path);
      const at = places.get(n) ?? 0;
      if (found !== undefined ? (places.get(found) ?? 0) >= at : this.#isReplacedLater(path)) continue;
      // The log works a patch into the document below it: whoever loads both then has them under the seq of the patch.
      const put = this.#entries[at];
      const isWithPatch = ({ what, seq, path: below }: PlacedEntry): boolean =>
        what.method === 'PATCH' && put !== undefined && seq > put.seq && isAtOrBelow(below, put.path);
      if (found === undefined && !had.has(path) && open.some(isWithPatch)) continue;
      if (!isOpen(path))
        yield [path, `${path} has ${found === undefined ? 'nothing' : `entry ${found}`} in place of entry ${n}`];
    }
    for (const [path, n] of held) {
      const at = places.get(n);
      if (path.startsWith('/live/') || at === undefined || at >= this.#count || expected.get(path) === n) continue;
      if (!isOpen(path)) yield [path, `${path} still has entry ${n}`];
    }
  }

  #at(through: number): ReadonlyMap<string, number> {
    if ((this.#entries[this.#count - 1]?.seq ?? 0) > through) {
      this.#value = {};
      this.#count = 0;
      this.#marks = undefined;
    }
    for (
      let next = this.#entries[this.#count];
      next !== undefined && next.seq <= through;
      next = this.#entries[this.#count]
    ) {
      this.#value = applied(this.#value, next);
      this.#count++;
      this.#marks = undefined;
    }
    this.#marks ??= marks(this.#value);
    return this.#marks;
  }

  /** Whether something after the position took what was at the path away. */
  #isReplacedLater(path: string): boolean {
    for (let at = this.#count; at < this.#entries.length; at++) {
      const entry = this.#entries[at];
      if (entry !== undefined && isAtOrBelow(path, entry.path)) return true;
    }
    return false;
  }
}
