import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';

interface ButtonProps {
  readonly onClick?: (() => void) | undefined;
  /** Why it does nothing now: it stays in the order of the keyboard, and says so. */
  readonly off?: string | undefined;
  readonly kind?: 'plain' | 'main' | 'quiet';
  /** The name of a button that only has an icon. */
  readonly label?: string;
  readonly title?: string | undefined;
  readonly submits?: boolean;
  readonly children: ComponentChildren;
}

/** A button; one that is off is shown, with its reason. */
export function Button({ onClick, off, kind = 'plain', label, title, submits = false, children }: ButtonProps) {
  const reason = useId();
  const isOff = off !== undefined;
  return (
    <button
      type={submits ? 'submit' : 'button'}
      class={`btn ${kind}${label === undefined ? '' : ' square'}`}
      aria-label={label}
      aria-disabled={isOff ? 'true' : undefined}
      aria-describedby={isOff ? reason : undefined}
      title={off ?? title}
      onClick={(event) => {
        if (isOff) event.preventDefault();
        else onClick?.();
      }}
    >
      {children}
      {isOff && (
        <span id={reason} class="sr">
          {off}
        </span>
      )}
    </button>
  );
}
