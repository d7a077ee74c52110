import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { App } from '../../app';
import { Button } from '../../parts/button';

/** How long the button says that it has copied. */
const SAYS_MS = 2000;

/** Copies the address of the page: whoever opens it sees the same. */
export function CopyLink({ app: { say } }: { readonly app: App }) {
  const done = useSignal<'copied' | 'refused' | undefined>(undefined);
  const { value } = done;
  useEffect(() => {
    if (value === undefined) return undefined;
    const timer = setTimeout(() => {
      done.value = undefined;
    }, SAYS_MS);
    return () => clearTimeout(timer);
  }, [value, done]);
  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(location.href);
      done.value = 'copied';
      say('Link copied');
    } catch {
      // A browser may forbid it: not over plain HTTP from another machine, for one.
      done.value = 'refused';
      say('The browser does not let the page copy: copy the address instead');
    }
  }
  return (
    <Button onClick={() => void copy()}>
      {value === 'copied' ? 'Link copied' : value === 'refused' ? 'Copy the address instead' : 'Copy link'}
    </Button>
  );
}
