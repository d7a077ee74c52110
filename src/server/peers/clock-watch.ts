import { SyncError } from '../../lib/errors.js';

/** Clocks that differ by more are announced: less does no harm, and NTP keeps them closer. */
export const CLOCK_DIFFERS_MS = 2000;

/** How clocks differ: `ahead of` or `behind`, and by how much. Above 0: that one is ahead. */
export function clockError(aheadMs: number): SyncError | undefined {
  if (Math.abs(aheadMs) <= CLOCK_DIFFERS_MS) return undefined;
  const seconds = Math.round(Math.abs(aheadMs) / 1000);
  // That of the others is ahead: ours is behind.
  const how = aheadMs > 0 ? 'behind' : 'ahead of';
  return new SyncError('clock_differs', `the clock of this server is ${seconds} s ${how} that of the backbone`);
}

/** What a watch of the clock tells. */
interface ClockEvents {
  differs(error: SyncError): void;
  agrees(): void;
}

/** Tells when the clock of the backbone begins to differ from ours, and when it agrees again. */
export function createClockWatch({ differs, agrees }: ClockEvents): (aheadMs: number | undefined) => void {
  let told = false;
  return (aheadMs) => {
    if (aheadMs === undefined) return;
    const error = clockError(aheadMs);
    if ((error !== undefined) === told) return;
    told = error !== undefined;
    if (error === undefined) agrees();
    else differs(error);
  };
}
