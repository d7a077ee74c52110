import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { Button } from './button';

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  /** The buttons; without them there is one that closes. */
  readonly actions?: ComponentChildren;
}

/**
 * Lies above the page and takes the keyboard, until it is closed; Esc closes it. It is open while
 * it is drawn. Its first button, which does nothing but close it, has the focus.
 */
export function Dialog({ title, onClose, children, actions }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const { current } = element;
    current?.showModal();
    current?.querySelector<HTMLElement>('.row .btn')?.focus();
    return () => current?.close();
  }, []);
  return (
    <dialog ref={element} aria-labelledby={heading} onClose={onClose}>
      <h2 id={heading}>{title}</h2>
      {children}
      <div class="row">{actions ?? <Button onClick={onClose}>Close</Button>}</div>
    </dialog>
  );
}

interface ConfirmProps {
  readonly title: string;
  /** What happens, and whether it can be taken back. */
  readonly children: ComponentChildren;
  /** The word on its button: what happens. */
  readonly action: string;
  readonly onConfirm: () => void;
  readonly onClose: () => void;
}

/** Asks once before something happens. */
export function Confirm({ title, children, action, onConfirm, onClose }: ConfirmProps) {
  const actions = (
    <>
      <Button onClick={onClose}>Cancel</Button>
      <Button kind="main" onClick={onConfirm}>
        {action}
      </Button>
    </>
  );
  return (
    <Dialog title={title} onClose={onClose} actions={actions}>
      {children}
    </Dialog>
  );
}
