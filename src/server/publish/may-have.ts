import type { Places } from '../../lib/net/places.js';
import type { DocPath } from '../../wire/doc-path.js';
import type { KnownPaths } from '../log/update-log.js';

/** Whether some client may have something at a path. */
export type MayHave = (path: DocPath) => boolean;

/** What a server knows of what clients hold. */
export interface KnownOfClients {
  readonly updateLog: KnownPaths;
  /** Where static data lie; undefined while that is not known. */
  readonly dataPlaces: () => Places | undefined;
  /** Clients get all they have from log and policy: no external API, and updates are retained. */
  readonly isAll: boolean;
}

/** {@link MayHave} by all that was published, committed, configured; true while unknown. */
export function mayHaveBy({ updateLog, dataPlaces, isAll }: KnownOfClients): MayHave {
  return (path) => {
    const places = isAll ? dataPlaces() : undefined;
    return places === undefined || places.overlap(path) || updateLog.mayHave(path);
  };
}

/** Whether a deletion has to stand over what is, or was, at a path beside updates. */
export type StandsOver = (path: DocPath) => boolean;

/**
 * {@link StandsOver} by what was published and committed: data of a commit that clients may have,
 * and what another deletion hides (design D48). Anything may be there while that is not known.
 */
export function standsOverBy({
  updateLog,
  hasData,
  isAll,
}: Pick<KnownOfClients, 'isAll'> & {
  readonly updateLog: KnownPaths;
  /**
   * Whether a commit that clients may have has data at, above or below a path; undefined while that
   * is not known.
   */
  readonly hasData: (path: DocPath) => boolean | undefined;
}): StandsOver {
  return (path) => !isAll || hasData(path) !== false || updateLog.hasDeletion(path);
}
