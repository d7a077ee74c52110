import type { PeerEntry } from '../../wire/data.js';
import { baseIdentity, configDigest } from './base-entry.js';
import type { Fold } from './fold.js';
import { type Generation, generationText } from './row.js';

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
 * Decides whether the entries of an instance become the next generation (design D18). The current generation changes nothing. Nor does an
 * earlier one, which comes from an instance with an old configuration, unless the log is exclusive. An entry keeps its place while its
 * identity stays the same.
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
