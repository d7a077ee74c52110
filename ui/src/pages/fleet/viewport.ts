import { computed, effect, type ReadonlySignal, signal } from '@preact/signals';

/**
 * Which lines of a long list are seen. Each line has the same height, so that its place is its
 * index times that.
 */
export interface Viewport {
  readonly rowHeight: ReadonlySignal<number>;
  /** How many elements there are for lines: those that fit, and a few above and below. */
  readonly slots: ReadonlySignal<number>;
  /** Lines that fit: what Page keys go by. */
  readonly fitting: ReadonlySignal<number>;
  /**
   * The index of the line that an element shows: as the list moves, elements from one end continue
   * at the other.
   */
  indexOf(slot: number): number;
  /** The element that shows a line; undefined: none does. */
  slotOf(index: number): number | undefined;
  /** The index of the first line that is seen whole. */
  firstSeen(): number;
  /** Scrolls as little as brings the line into view. */
  reveal(index: number): void;
  dispose(): void;
}

const ROW_PX = 36;
const CARD_PX = 60;
/** Below this width a line is a card of two lines. */
const NARROW = '(max-width: 719.98px)';
/** The bar at the bottom of a narrow screen. */
const BOTTOM_BAR_PX = 64;
const ABOVE = 4;
const BELOW = 5;

/**
 * `list`: the element as high as all lines; `heads`: what stays at the top while the page scrolls.
 */
export function createViewport(win: Window, { list, heads }: { list: HTMLElement; heads: HTMLElement }): Viewport {
  const narrow = win.matchMedia(NARROW);
  const isNarrow = signal(narrow.matches);
  const rowHeight = computed(() => (isNarrow.value ? CARD_PX : ROW_PX));
  const height = signal(win.innerHeight);
  const headsHeight = signal(0);
  const fitting = computed(() => Math.max(1, Math.ceil((height.value - headsHeight.value) / rowHeight.value)));
  const slots = computed(() => fitting.value + ABOVE + BELOW);
  const first = signal(0);
  let isSticky = false;

  /** The part of the window in which lines are seen. */
  function seen(): { top: number; bottom: number } {
    const { top, height: own } = heads.getBoundingClientRect();
    return {
      top: isSticky ? Math.max(0, top + own) : 0,
      bottom: win.innerHeight - (isNarrow.value ? BOTTOM_BAR_PX : 0),
    };
  }

  function look(): void {
    const { top } = seen();
    const above = top - list.getBoundingClientRect().top;
    first.value = Math.max(0, Math.floor(above / rowHeight.value) - ABOVE);
  }
  function measure(): void {
    isNarrow.value = narrow.matches;
    height.value = win.innerHeight;
    const { position, top } = win.getComputedStyle(heads);
    isSticky = position === 'sticky';
    // What sticks stands as far below the top as it says, whether it does at this moment or not.
    headsHeight.value = isSticky ? Number.parseFloat(top) + heads.offsetHeight : 0;
    look();
  }
  const resized = new ResizeObserver(measure);
  resized.observe(win.document.body);
  resized.observe(heads);
  win.addEventListener('scroll', look, { passive: true });
  win.addEventListener('resize', measure, { passive: true });
  const stop = effect(() => {
    rowHeight.value;
    look();
  });
  measure();
  return {
    ...{ rowHeight, slots, fitting },
    indexOf(slot) {
      const from = first.value;
      const size = slots.value;
      return from + ((((slot - from) % size) + size) % size);
    },
    slotOf(index) {
      const isShown = index >= first.value && index < first.value + slots.value;
      return isShown ? index % slots.value : undefined;
    },
    firstSeen: () => Math.max(0, Math.ceil((seen().top - list.getBoundingClientRect().top) / rowHeight.peek())),
    reveal(index) {
      const { top, bottom } = seen();
      const from = list.getBoundingClientRect().top + index * rowHeight.peek();
      const until = from + rowHeight.peek();
      if (from < top) win.scrollBy({ top: from - top, behavior: 'instant' });
      else if (until > bottom) win.scrollBy({ top: until - bottom, behavior: 'instant' });
      look();
    },
    dispose() {
      stop();
      resized.disconnect();
      win.removeEventListener('scroll', look);
      win.removeEventListener('resize', measure);
    },
  };
}
