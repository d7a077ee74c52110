import { createHash } from 'node:crypto';
import { SyncError } from '../../lib/errors.js';
import { printJson } from '../../lib/json/json-text.js';
import type { Logger } from '../../lib/observe/log.js';
import type { PeerEntry } from '../../wire/data.js';
import { baseIdentity } from './base-entry.js';
import type { Fold } from './fold.js';
import type { LogView } from './log-view.js';
import type { Retention } from './retention.js';
import { type Generation, generationText } from './row.js';

/** Each of the instances that start together may win once before this one. */
const ADOPT_ATTEMPTS = 20;

/**
 * Writes the operator's base entries of this instance into the log (design D18). No append may run
 * meanwhile.
 */
export class BaseConfig {
  readonly #exclusive: boolean;
  readonly #deps: { view: LogView; retention: Retention; log: Logger };
  /** Digest of the entries of this instance. */
  #given: string | undefined;

  constructor(
    { exclusive }: { readonly exclusive: boolean },
    deps: { view: LogView; retention: Retention; log: Logger },
  ) {
    this.#exclusive = exclusive;
    this.#deps = deps;
  }

  /** {@link LogHealth.configDiffers}. */
  get differs(): boolean {
    return this.#given !== undefined && this.#given !== (this.#deps.view.state.generation?.generation ?? '');
  }

  /** Adopts the entries of this instance. Rejects like {@link LogWriter.append}. */
  async adopt(entries: readonly PeerEntry[]): Promise<void> {
    const { view, retention, log } = this.#deps;
    for (let attempt = 1; ; attempt++) {
      const next = nextGeneration(entries, view.state.generation, view.state.fold, this.#exclusive);
      this.#given = next.generation;
      if (next.body === undefined) {
        if (this.differs) log.warn({}, 'the base data entries of a newer configuration are in use');
        return;
      }
      // Otherwise an update that a removed base entry superseded could come back after a crash.
      await retention.work();
      const lastSeq = view.state.generation?.seq ?? 0;
      try {
        await view.append([{ row: { kind: 'base', body: next.body } }], { kind: 'base', lastSeq });
        log.info({ ...next.changes, head: view.state.head }, 'base data entries changed');
        return;
      } catch (error) {
        const isBeaten = error instanceof SyncError && error.code === 'log_conflict' && attempt < ADOPT_ATTEMPTS;
        if (!isBeaten) throw error;
        await view.catchUp();
      }
    }
  }
}

/** Number of earlier generations that a log remembers. */
const KNOWN_AT_MOST = 100;

/** The decision about the base configuration of an instance. */
export interface NextGeneration {
  /** Digest of the entries of the instance. */
  readonly generation: string;
  /** The row to append; undefined if the log has this generation, or a newer one. */
  readonly body: string | undefined;
  readonly changes?: { readonly added: number; readonly removed: number };
}

/**
 * Decides whether the entries of an instance become the next generation (design D18). The current
 * generation changes nothing. Nor does an earlier one, which comes from an instance with an old
 * configuration, unless the log is exclusive. An entry keeps its place while its identity stays the
 * same.
 */
export function nextGeneration(
  given: readonly PeerEntry[],
  last: Generation | undefined,
  fold: Pick<Fold, 'base' | 'superseded'>,
  exclusive: boolean,
): NextGeneration {
  const base = fold.base();
  const entries = new Map<string, PeerEntry>();
  for (const { seq: _seq, origin: _origin, ...entry } of given) {
    if (!entries.has(baseIdentity(entry))) entries.set(baseIdentity(entry), entry);
  }
  const generation = entries.size === 0 ? '' : configDigest([...entries.values()]);
  if (generation === (last?.generation ?? '') && !(entries.size === 0 && base.length > 0)) {
    return { generation, body: undefined };
  }
  if (!exclusive && last?.known.includes(generation)) return { generation, body: undefined };
  const places = new Map(base.map(({ entry, place }) => [baseIdentity(entry), place]));
  const placed = [...entries].map(([identity, entry]) => ({ place: places.get(identity), entry }));
  const earlier = [...(last?.known ?? []), ...(last === undefined ? [] : [last.generation])];
  const known = [...new Set(earlier)].filter((name) => name !== generation).slice(-KNOWN_AT_MOST);
  return {
    generation,
    body: generationText(generation, known, placed, fold.superseded()),
    changes: {
      added: placed.filter(({ place }) => place === undefined).length,
      removed: [...places.keys()].filter((identity) => !entries.has(identity)).length,
    },
  };
}

/** Digest of a base configuration: depends on the entries, their headers and their order. */
function configDigest(entries: readonly PeerEntry[]): string {
  return createHash('sha256').update(printJson(entries)).digest('hex');
}
