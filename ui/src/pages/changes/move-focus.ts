const STEPS: Readonly<Record<string, number>> = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 };

/**
 * Moves the focus between the links in an element: arrows, `j` and `k` by one, Home and End to the
 * ends.
 */
export function moveFocus(event: KeyboardEvent): void {
  const { currentTarget, target, key } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || !(currentTarget instanceof HTMLElement)) return;
  const links = [...currentTarget.querySelectorAll<HTMLElement>('a[href]')];
  const at = target instanceof HTMLElement ? links.indexOf(target) : -1;
  if (at === -1) return;
  const step = STEPS[key];
  const to = step !== undefined ? at + step : key === 'Home' ? 0 : key === 'End' ? links.length - 1 : -1;
  const link = links[to];
  if (link === undefined) return;
  event.preventDefault();
  link.focus();
}
