/** What {@link createPace} needs of a document and its window. */
export interface PaceClock {
  isHidden(): boolean;
  /** Calls back when the tab is seen again. */
  onSeen(callback: () => void): void;
  now(): number;
  setTimer(callback: () => void, ms: number): unknown;
}

/**
 * Draws when something is to be drawn, at most once in `everyMs`, and never while the tab is
 * hidden: what waits then is drawn when it is seen again. Returns the function that asks for a
 * draw.
 */
export function createPace(draw: () => void, clock: PaceClock, everyMs: number): () => void {
  let lastAt = Number.NEGATIVE_INFINITY;
  let isWanted = false;
  let isScheduled = false;
  function next(): void {
    if (!isWanted || isScheduled || clock.isHidden()) return;
    isScheduled = true;
    const run = (): void => {
      isScheduled = false;
      if (clock.isHidden()) return;
      isWanted = false;
      lastAt = clock.now();
      draw();
    };
    const waitMs = lastAt + everyMs - clock.now();
    if (waitMs > 0) clock.setTimer(run, waitMs);
    else run();
  }
  clock.onSeen(next);
  return () => {
    isWanted = true;
    next();
  };
}
