import type { ComponentChildren } from 'preact';
import { Icon } from './icon';

interface BannerProps {
  /** `bad`: something does not work; `warn`: something is to be known. */
  readonly kind: 'warn' | 'bad';
  /** What is wrong, as a short sentence. */
  readonly what: string;
  /** Since when, and what next. */
  readonly children?: ComponentChildren;
  /** What changes by itself, as an age: it is not read out. */
  readonly running?: ComponentChildren;
  /** A link or button at its end. */
  readonly action?: ComponentChildren;
}

/** Says above a page what is wrong, since when, and what next. */
export function Banner({ kind, what, children, running, action }: BannerProps) {
  return (
    <div class={`banner ${kind}`}>
      <Icon name={kind === 'bad' ? 'refused' : 'warning'} tone={kind === 'bad' ? 'red' : 'amber'} />
      <p>
        <span role={kind === 'bad' ? 'alert' : 'status'}>
          <b>{what}</b> {children}
        </span>{' '}
        {running}
      </p>
      {action}
    </div>
  );
}
