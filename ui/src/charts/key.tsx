import './charts.css';
import type { ComponentChildren } from 'preact';

/**
 * What the lines of a chart are: a sample with its word. `children` of a {@link Key} are shapes on
 * a ground of 22 by 10.
 */
export function Keys({ children }: { readonly children: ComponentChildren }) {
  return <span class="chart-keys">{children}</span>;
}

export function Key({ word, children }: { readonly word: string; readonly children: ComponentChildren }) {
  return (
    <span class="chart-key">
      <svg viewBox="0 0 22 10" aria-hidden="true" focusable="false">
        {children}
      </svg>
      {word}
    </span>
  );
}
