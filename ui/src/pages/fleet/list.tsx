import { useComputed, useSignal, useSignalEffect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { App } from '../../app';
import { linkTo } from '../../router';
import { Heads } from './heads';
import { keepPlace, keptPlace } from './kept-place';
import { keyStep } from './keys';
import { LABELS_SHOWN, type ListModel } from './list-model';
import { Slot, type SlotContext, slotId } from './slot';
import { createViewport, type Viewport } from './viewport';

/**
 * The lines of the fleet: as many elements as are seen and a few more, however many clients there
 * are.
 */
export function FleetList({ app, model }: { readonly app: App; readonly model: ListModel }) {
  const grid = useRef<HTMLDivElement>(null);
  const heads = useRef<HTMLDivElement>(null);
  const lines = useRef<HTMLDivElement>(null);
  const viewport = useSignal<Viewport | undefined>(undefined);
  const at = useSignal<string | undefined>(undefined);
  const labels = useComputed(() => model.found.value.labels.slice(0, LABELS_SHOWN));
  const oneInstance = useComputed(() => app.store.instances.value.length < 2);
  const context = useRef<SlotContext>(undefined);
  useEffect(() => {
    if (lines.current === null || heads.current === null) return;
    const created = createViewport(window, { list: lines.current, heads: heads.current });
    viewport.value = created;
    return () => created.dispose();
  }, [viewport]);
  useSignalEffect(() => {
    const height = (viewport.value?.rowHeight.value ?? 0) * model.items.value.length;
    if (lines.current !== null) lines.current.style.height = `${height}px`;
  });
  useEffect(() => () => model.hold(false), [model]);
  // The heads are as wide as the words of their columns; each line is a grid of its own, and has
  // the same columns by this.
  useEffect(() => {
    const row = heads.current;
    if (row === null) return;
    const resized = new ResizeObserver(() =>
      grid.current?.style.setProperty('--columns', getComputedStyle(row).gridTemplateColumns),
    );
    for (const head of row.children) resized.observe(head);
    return () => resized.disconnect();
  }, []);

  const rowHeight = useComputed(() => viewport.value?.rowHeight.value ?? 36);
  const isGrouped = useComputed(() => model.grouping.value !== null);
  context.current ??= {
    ...{ at, labels, rowHeight, isGrouped, head: model.head, items: model.items, now: app.now },
    indexOf: (slot) => viewport.value?.indexOf(slot) ?? slot,
    instanceName: model.instanceName,
  };
  const { current: shared } = context;

  const indexOfAt = (): number => model.items.peek().findIndex((item) => item.kind === 'row' && item.id === at.peek());
  const slotAt = useComputed(() => {
    if (at.value === undefined || viewport.value === undefined) return undefined;
    const index = model.items.value.findIndex((item) => item.kind === 'row' && item.id === at.value);
    const slot = index === -1 ? undefined : viewport.value.slotOf(index);
    return slot === undefined ? undefined : slotId(slot);
  });
  const isHeld = useRef({ pointer: false, focus: false });
  const hold = (change: Partial<{ pointer: boolean; focus: boolean }>): void => {
    Object.assign(isHeld.current, change);
    model.hold(isHeld.current.pointer || isHeld.current.focus);
  };
  /** Whoever comes back with the button of the browser finds the list where it was. */
  const remember = (id: string): void => keepPlace(history, { id, y: scrollY });
  const open = (id: string): void => {
    remember(id);
    app.router.go(linkTo('client', { id }));
  };
  useEffect(() => {
    const kept = keptPlace(history);
    if (kept === undefined) return;
    at.value = kept.id;
    // The frame shows the top of a page that opens; this comes after it.
    const frame = requestAnimationFrame(() => scrollTo({ top: kept.y, behavior: 'instant' }));
    return () => cancelAnimationFrame(frame);
  }, [at]);

  /** Moves the keyboard by a key from a line. Returns whether the key is one of the list. */
  const step = (key: string, from: number): boolean => {
    const items = model.items.peek();
    const page = Math.max(1, (viewport.peek()?.fitting.peek() ?? 1) - 2);
    const next = keyStep(key, { items, at: from, page });
    const item = next === undefined ? undefined : items[next];
    if (next === undefined || item?.kind !== 'row') return false;
    at.value = item.id;
    viewport.peek()?.reveal(next);
    return true;
  };
  /** Begins at the first line that is seen. */
  const begin = (): boolean => step('j', (viewport.peek()?.firstSeen() ?? 0) - 1);
  const press = (key: string): boolean => {
    const from = indexOfAt();
    const id = at.peek();
    if (key === 'Enter') {
      if (from !== -1 && id !== undefined) open(id);
      return from !== -1;
    }
    return from === -1 && ['j', 'k', 'ArrowDown', 'ArrowUp'].includes(key) ? begin() : step(key, from);
  };
  // `j` and `k` come into the list from anywhere on the page.
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !app.areKeysOn.peek()) return;
      if ((event.key !== 'j' && event.key !== 'k') || isTyping(event.target)) return;
      if (press(event.key)) {
        event.preventDefault();
        grid.current?.focus({ preventScroll: true });
      }
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  });

  const slots = viewport.value?.slots.value ?? 0;
  const isEmpty = useComputed(() => model.items.value.length === 0);
  const rows = useComputed(() => model.items.value.length + 1);
  return (
    <div
      ref={grid}
      role="grid"
      tabIndex={isEmpty.value ? -1 : 0}
      class={`list${labels.value.length === 0 ? ' no-labels' : ''}${oneInstance.value ? ' no-instance' : ''}`}
      aria-label="Clients"
      aria-rowcount={rows}
      aria-activedescendant={slotAt}
      // A head of a column is not where somebody reads on.
      onFocusIn={({ target, currentTarget }) => hold({ focus: target === currentTarget })}
      onFocusOut={() => hold({ focus: false })}
      onFocus={({ target, currentTarget }) => {
        // A pointer brings the focus, too, and must not move what it is about to click.
        if (target === currentTarget && indexOfAt() === -1 && currentTarget.matches(':focus-visible')) begin();
      }}
      onKeyDown={(event) => {
        if (event.ctrlKey || event.metaKey || event.altKey || event.target !== event.currentTarget) return;
        if (event.key === 'Escape') event.currentTarget.blur();
        else if (press(event.key)) event.preventDefault();
      }}
    >
      <Heads router={app.router} sort={model.sort} labels={labels} end={app.store.head} heads={heads} />
      <div
        ref={lines}
        role="rowgroup"
        class="lines"
        onPointerEnter={() => hold({ pointer: true })}
        onPointerLeave={() => hold({ pointer: false })}
        onClick={(event) => {
          if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
          const target = event.target instanceof Element ? event.target : null;
          const id = target?.closest<HTMLElement>('[data-id]')?.dataset.id;
          if (!id) return;
          if (target?.closest('a')) remember(id);
          else if (window.getSelection()?.isCollapsed) open(id);
        }}
      >
        {viewport.value !== undefined &&
          Array.from({ length: slots }, (_, slot) => <Slot key={slot} slot={slot} context={shared} />)}
      </div>
    </div>
  );
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest('input, textarea, select, dialog, [contenteditable]') !== null;
}
