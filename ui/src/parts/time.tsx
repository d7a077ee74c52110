import type { ReadonlySignal } from '@preact/signals';
import { age, DASH, moment } from '../../../src/fleet-rules/words.js';

interface SinceProps {
  /** Milliseconds by the clock of the server; null and 0: not known. */
  readonly at: number | null | undefined;
  /** `app.now`. */
  readonly now: ReadonlySignal<number>;
}

/** How long ago, or for how long: it runs. The moment itself is its title. */
export function Age({ at, now }: SinceProps) {
  if (!at) return <span class="muted">{DASH}</span>;
  return (
    <time dateTime={new Date(at).toISOString()} title={moment(at, now.value)}>
      {age(at, now.value)}
    </time>
  );
}
