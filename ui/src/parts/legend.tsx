import { integer } from '../../../src/fleet-rules/words.js';
import { Icon, type IconName } from './icon';

export interface LegendItem {
  readonly icon: IconName;
  readonly tone: string;
  readonly clients: number;
  readonly word: string;
  /** Where these clients are listed. */
  readonly href: string;
  /** They are what is listed now. */
  readonly isOn: boolean;
}

/** What the segments of a bar are, in the order of the bar. Each leads to its clients. */
export function Legend({ label, items }: { readonly label: string; readonly items: readonly LegendItem[] }) {
  return (
    <ul class="legend" aria-label={label}>
      {items.map(({ icon, tone, clients, word, href, isOn }) => (
        <li key={word} class={clients === 0 ? 'zero' : undefined}>
          <a href={href} aria-current={isOn ? 'true' : undefined}>
            <Icon name={icon} tone={clients === 0 ? 'muted' : tone} />
            <b>{integer(clients)}</b> {word}
          </a>
        </li>
      ))}
    </ul>
  );
}
