import type { ReadonlySignal } from '@preact/signals';
import { age, moment } from '../../../src/fleet/words.js';

interface SinceProps {
  /** Milliseconds by the clock of the server. */
  readonly at: number | null | undefined;
  /** `app.now`. */
  readonly now: ReadonlySignal<number>;
}

/** How long ago, or for how long: it runs. The moment itself is its title. */
export function Age({ at, now }: SinceProps) {
  const text = age(at, now.value);
  if (at === null || at === undefined) return <span class="muted">{text}</span>;
  return (
    <time dateTime={new Date(at).toISOString()} title={moment(at, now.value)}>
      {text}
    </time>
  );
}
