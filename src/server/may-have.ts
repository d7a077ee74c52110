import type { Places } from '../lib/places.js';
import type { DocPath } from '../wire/doc-path.js';
import type { UpdateLog } from './log/update-log.js';

/** Whether some client may have something at a path. */
export type MayHave = (path: DocPath) => boolean;

/** What a server knows of what clients hold. */
export interface KnownOfClients {
  readonly updateLog: Pick<UpdateLog, 'mayHave'>;
  /** Where static data lie; undefined while that is not known. */
  readonly dataPlaces: () => Places | undefined;
  /** The update log and the policy are all that clients get: no API of the operator's configures more, and updates are retained. */
  readonly isAll: boolean;
}

/** {@link MayHave} by what was published, committed and configured, of whatever topic; everything may be there while that is not known. */
export function mayHaveBy({ updateLog, dataPlaces, isAll }: KnownOfClients): MayHave {
  return (path) => {
    const places = isAll ? dataPlaces() : undefined;
    return places === undefined || places.overlap(path) || updateLog.mayHave(path);
  };
}
