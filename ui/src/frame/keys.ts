import { type ReadonlySignal, signal } from '@preact/signals';
import { linkTo, type PageName, type Router } from '../router';
import { kept } from './kept';

/** Keys that work everywhere, as the dialog lists them. */
export const KEYS: readonly { readonly keys: readonly string[]; readonly does: string }[] = [
  { keys: ['/'], does: 'search' },
  { keys: ['j', 'k'], does: 'next, previous row' },
  { keys: ['Enter'], does: 'open the row' },
  { keys: ['g', 'f'], does: 'Fleet' },
  { keys: ['g', 'c'], does: 'Changes' },
  { keys: ['g', 'd'], does: 'Data' },
  { keys: ['g', 'p'], does: 'Policy' },
  { keys: ['g', 'i'], does: 'Instances' },
  { keys: ['t'], does: 'light or dark' },
  { keys: ['?'], does: 'these keys' },
  { keys: ['Esc'], does: 'leave the field, close, one page up' },
];

const PAGE_OF: Readonly<Record<string, PageName>> = {
  f: 'fleet',
  c: 'changes',
  d: 'data',
  p: 'policy',
  i: 'instances',
};
const ABOVE: Partial<Record<PageName, PageName>> = { client: 'fleet', change: 'changes' };
/** After `g`, the next key counts for this long. */
const PREFIX_MS = 1_500;

export interface Keys {
  /**
   * Whether single keys do anything: who dictates, or rests a hand on the keyboard, turns them off.
   */
  readonly areOn: ReadonlySignal<boolean>;
  turn(on: boolean): void;
}

interface KeyParts {
  readonly router: Router;
  readonly flipTheme: () => void;
  readonly showKeys: () => void;
}

/**
 * Hears the keys of a window. A field, a dialog, or a part of the page that takes a key for itself
 * goes first.
 */
export function createKeys(win: Window, { router, flipTheme, showKeys }: KeyParts): Keys {
  const store = kept(win, 'policysync-keys');
  const areOn = signal(store.read() !== 'off');
  let prefixAt = Number.NEGATIVE_INFINITY;

  function search(): void {
    const field = (): HTMLElement | null => win.document.querySelector('[type="search"], #q');
    const here = field();
    here?.focus(); // at once: the next key belongs to it
    if (here !== null) return;
    router.go(linkTo('fleet'));
    win.requestAnimationFrame(() => field()?.focus());
  }
  function leave(): void {
    const { page } = router.route.peek();
    const above = page && ABOVE[page];
    if (above !== undefined) router.go(linkTo(above));
  }
  function act(key: string, at: number): boolean {
    const page = at - prefixAt < PREFIX_MS ? PAGE_OF[key] : undefined;
    prefixAt = key === 'g' ? at : Number.NEGATIVE_INFINITY;
    if (page !== undefined) router.go(linkTo(page));
    else if (key === '/') search();
    else if (key === 't') flipTheme();
    else if (key === '?') showKeys();
    else return key === 'g';
    return true;
  }
  win.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (win.document.querySelector('dialog[open]') !== null) return;
    const focused = win.document.activeElement;
    const isTyping = focused instanceof HTMLElement && focused.matches('input, select, textarea');
    if (event.key === 'Escape') {
      if (isTyping) focused.blur();
      else leave();
    } else if (areOn.peek() && !isTyping && act(event.key, event.timeStamp)) event.preventDefault();
  });
  return {
    areOn,
    turn(on) {
      areOn.value = on;
      store.write(on ? 'on' : 'off');
    },
  };
}
