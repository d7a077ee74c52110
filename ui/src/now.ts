import { type ReadonlySignal, signal } from '@preact/signals';

/** A time that is read anew each second, on the second, and not while the tab is hidden. */
export function createNow(win: Window, read: () => number): ReadonlySignal<number> {
  const now = signal(read());
  let timer: number | undefined;
  function tick(): void {
    win.clearTimeout(timer);
    if (win.document.hidden) return;
    now.value = read();
    timer = win.setTimeout(tick, 1000 - (now.value % 1000));
  }
  win.document.addEventListener('visibilitychange', tick);
  tick();
  return now;
}
