import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { ApiError } from '../api';
import { Button } from './button';

interface EmptyProps {
  readonly title: string;
  /** Why there is nothing, and what to do next. */
  readonly children: ComponentChildren;
}

/** A page, or a part of one, that has nothing to show. */
export function Empty({ title, children }: EmptyProps) {
  return (
    <div class="empty">
      <h1 tabIndex={-1}>{title}</h1>
      {children}
    </div>
  );
}

/** Grey lines where something will be. */
export function Loading({ title, rows = 9 }: { readonly title: string; readonly rows?: number }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => {
    const { current } = heading;
    return () => {
      if (current !== null && document.activeElement === current) queueMicrotask(focusTitle);
    };
  }, []);
  return (
    <div class="loading" aria-busy="true">
      <h1 ref={heading} tabIndex={-1} class="muted">
        {title}
      </h1>
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} class="skeleton" style={{ width: `${70 - ((row * 13) % 40)}%` }} />
      ))}
    </div>
  );
}

/**
 * The title of the page gets the focus: of one that opens, or in place of the title that had it.
 */
export function focusTitle(): void {
  document.querySelector<HTMLElement>('#main h1')?.focus({ preventScroll: true });
}

/** A request that failed: what, why, what next. */
export function Failed({
  what,
  error,
  retry,
}: {
  readonly what: string;
  readonly error: unknown;
  readonly retry?: () => void;
}) {
  const message = error instanceof Error ? error.message : String(error);
  const remedy = error instanceof ApiError ? error.remedy : 'Reload the page.';
  return (
    <div class="failed" role="alert">
      <p>
        <b>{what}</b> {message}
      </p>
      <p class="muted">{remedy}</p>
      {retry !== undefined && <Button onClick={retry}>Try again</Button>}
    </div>
  );
}
