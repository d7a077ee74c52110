import type { KnownClient } from '../clients/known-client.js';
import type { OtherInstances } from './other-instances.js';
import type { WhyReturning } from './returning.js';

/** What this instance knows of the fleet at one moment, for lists, pages and waits. */
export interface FleetPicture {
  readonly others: OtherInstances;
  /**
   * Whether a client is connected anywhere, or said goodbye. Called only if one is expected back.
   */
  readonly isBack: (key: string) => boolean;
  /** Undefined: nobody is expected. */
  readonly whyReturning: WhyReturning | undefined;
  readonly nowMs: number;
}

/**
 * Why there may be clients that the picture does not show; undefined: there are none. The one
 * answer for lists, pages and waits. `seq`: of a record; then each instance must have told of its
 * clients after it had seen that.
 */
export function whyIncomplete(picture: FleetPicture, seq = 0): string | undefined {
  const { others, isBack, whyReturning, nowMs } = picture;
  const unheard = whyUnheard(others);
  if (unheard !== undefined) return unheard;
  const behind = others.instances.find(({ state, view }) => state === 'live' && (view?.seen ?? 0) < seq);
  if (behind !== undefined) return `server instance ${behind.instance} has not said who is connected to it`;
  return whyReturning?.(isBack, { nowMs, isAlone: others.views.length === 0 });
}

/**
 * Why there may be instances, or clients of them, that nobody hears of; undefined: there are none.
 */
export function whyUnheard({ unread, instances }: OtherInstances): string | undefined {
  return unread ?? instances.find(({ why }) => why !== undefined)?.why;
}

/** {@link FleetPicture.isBack}: looks at all clients when it is first asked. */
export function backAmong(own: () => readonly KnownClient[], { instances }: OtherInstances): (key: string) => boolean {
  let back: Set<string> | undefined;
  const find = (): Set<string> => {
    const all = [own(), ...instances.map(({ clients }) => clients)].flat();
    const isBack = ({ awaySinceMs, saidGoodbye }: KnownClient): boolean => awaySinceMs === null || saidGoodbye === true;
    return new Set(all.filter(isBack).map(({ key }) => key));
  };
  return (key) => {
    back ??= find();
    return back.has(key);
  };
}
