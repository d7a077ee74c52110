import type { PeerEntry } from '../../wire/data.js';
import { baseIdentity, configDigest } from './base-entry.js';
import type { Fold } from './fold.js';
import { type Generation, generationText } from './row.js';

/** Earlier generations that a log remembers. */
const KNOWN_AT_MOST = 100;

/** What becomes of the base configuration when an instance comes with its own. */
export interface NextGeneration {
  /** Digest of what the instance was given. */
  readonly generation: string;
  /** The row to append; undefined: the log has this generation, or a newer one that counts. */
  readonly body: string | undefined;
  readonly changes?: { readonly added: number; readonly removed: number };
}

/**
 * Decides it (design D18): the same generation changes nothing; neither does one that the log knows as an earlier one,
 * since the instance was started with an old configuration - unless the log is the instance's own. An entry keeps its
 * place while its identity stays.
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
