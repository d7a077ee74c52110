/**
 * A drawing on a ground of 14 by 14: `solid` shapes have `cut` taken out of them in the colour of
 * the page.
 */
interface Drawing {
  readonly solid?: string;
  readonly cut?: string;
  readonly line?: string;
  readonly dashes?: string;
}

const ICONS = {
  acknowledged: { solid: 'M7 13A6 6 0 1 0 7 1a6 6 0 0 0 0 12Z', cut: 'M4.3 7.3 6.2 9.2 9.8 5.1' },
  told: { solid: 'M7 2v10A5 5 0 0 0 7 2Z', line: 'M7 12.2A5.2 5.2 0 1 0 7 1.8a5.2 5.2 0 0 0 0 10.4Z' },
  not_told: { line: 'M7 12.2A5.2 5.2 0 1 0 7 1.8a5.2 5.2 0 0 0 0 10.4Z' },
  refused: { solid: 'M4.6 1h4.8L13 4.6v4.8L9.4 13H4.6L1 9.4V4.6Z', cut: 'm4.8 4.8 4.4 4.4M9.2 4.8 4.8 9.2' },
  away: { line: 'M7 12.2A5.2 5.2 0 1 0 7 1.8a5.2 5.2 0 0 0 0 10.4Z', dashes: '2.3 2.37' },
  does_not_say: { line: 'M4.7 4.8c0-1.5 1-2.4 2.3-2.4s2.3.9 2.3 2.2C9.3 6.4 7 6.6 7 8.6M7 11.4v.2' },
  none: { line: 'M4 7h6' },
  warning: { solid: 'M7 1.2 13.4 12.6H.6Z', cut: 'M7 5.4v3.2M7 10.6v.2' },
  check: { line: 'm2.6 7.6 2.9 2.9 5.9-7' },
  search: { line: 'M6.2 10.6a4.4 4.4 0 1 0 0-8.8 4.4 4.4 0 0 0 0 8.8ZM9.5 9.5l3 3' },
  down: { line: 'm3.2 5.2 3.8 3.8 3.8-3.8' },
  up: { line: 'm3.2 8.8 3.8-3.8 3.8 3.8' },
  right: { line: 'm5.2 3.2 3.8 3.8-3.8 3.8' },
  theme: { solid: 'M7 2v10A5 5 0 0 0 7 2Z', line: 'M7 12.2A5.2 5.2 0 1 0 7 1.8a5.2 5.2 0 0 0 0 10.4Z' },
  dot: { solid: 'M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Z' },
  brand: { line: 'M7 1.1 12.1 4v6L7 12.9 1.9 10V4ZM7 5 8.7 6v2L7 9 5.3 8V6Z' },
  fleet: { line: 'M2 3.2h10M2 7h10M2 10.8h6' },
  changes: { line: 'M1.8 11.8c5.4 0 4.2-9.6 10.4-9.6M1.8 11.8h10.4' },
  data: { line: 'M2.8 2v9.4h3.6M2.8 5.2h3.6M8.6 3.6h3.6v3.2H8.6ZM8.6 9.6h3.6v3.2H8.6Z' },
  policy: { line: 'M3.2 1.6h5L11 4.4v8H3.2ZM5.2 6.6h3.6M5.2 9.2h3.6' },
  instances: { line: 'M1.8 2.2h10.4v3.9H1.8ZM1.8 7.9h10.4v3.9H1.8ZM4 4.1h.2M4 9.9h.2' },
  person: { line: 'M7 6.8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM2.2 12.4c.5-2.3 2.4-3.5 4.8-3.5s4.3 1.2 4.8 3.5' },
} satisfies Record<string, Drawing>;
export type IconName = keyof typeof ICONS;

interface IconProps {
  readonly name: IconName;
  /** A class for its colour: `accent`, `amber`, `red`, `muted`; without it has that of the text. */
  readonly tone?: string | undefined;
}

/** Decoration beside a word: it says nothing to those who listen. */
export function Icon({ name, tone = '' }: IconProps) {
  const { solid, cut, line, dashes }: Drawing = ICONS[name];
  return (
    <svg class={`ic ${tone}`} viewBox="0 0 14 14" aria-hidden="true" focusable="false">
      {solid !== undefined && <path class="solid" d={solid} />}
      {cut !== undefined && <path class="cut" d={cut} />}
      {line !== undefined && <path class="line" d={line} stroke-dasharray={dashes} />}
    </svg>
  );
}
