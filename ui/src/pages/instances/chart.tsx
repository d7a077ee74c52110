import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { useTheme } from '../../charts/use-theme';
import { useWidth } from '../../charts/use-width';
import type { PlotOptions } from './plot';

export type Plots = Pick<typeof import('./plot'), 'drawLines' | 'drawHeat'>;

interface ChartProps {
  readonly title: string;
  readonly unit: string;
  /** The figures of the chart in words, for those who do not see it. */
  readonly text: string;
  readonly minutes: readonly number[];
  /** Draws into an element. Another function draws anew. */
  readonly draw: (plots: Plots, target: HTMLElement, options: PlotOptions) => { destroy(): void };
  /**
   * Beside the title: what the lines are, with the figures of a minute; null: no minute is pointed
   * at.
   */
  readonly note: (index: number | null) => ComponentChildren;
}

const HEIGHT = 140;

async function loadPlots(): Promise<Plots> {
  const { drawLines, drawHeat } = await import('./plot');
  return { drawLines, drawHeat };
}

/**
 * A chart of the last hour with its figures. The library that draws it is loaded with the first
 * chart.
 */
export function Chart({ title, unit, text, minutes, draw, note }: ChartProps) {
  const ground = useRef<HTMLDivElement>(null);
  const width = useWidth(ground);
  const theme = useTheme();
  const [plots, setPlots] = useState<Plots>();
  const [failed, setFailed] = useState(false);
  const [index, setIndex] = useState<number | null>(null);
  useEffect(() => {
    loadPlots().then(setPlots, () => setFailed(true));
  }, []);
  useEffect(() => {
    const { current } = ground;
    if (plots === undefined || current === null || width === 0) return undefined;
    const drawn = draw(plots, current, { width, height: HEIGHT, minutes, onPoint: setIndex });
    return () => drawn.destroy();
  }, [plots, width, theme, minutes, draw]);
  return (
    <figure class="hour">
      <figcaption>
        <span>
          <b>{title}</b> <span class="muted">{unit}</span>
        </span>
        <span class="muted">{note(index)}</span>
        <span class="sr">{text}</span>
      </figcaption>
      <div ref={ground} class="ground" aria-hidden="true" />
      {failed && <p class="muted">The chart could not be loaded. Reload the page; the figures are above.</p>}
    </figure>
  );
}
