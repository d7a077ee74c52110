import uPlot from 'uplot';
import { heat } from '../../../../src/fleet-rules/last-hour.js';
import { DASHES } from './dashes';

/**
 * Charts of the last hour on a canvas. The colours are those of the page at the time of the call: a
 * switch of the theme draws anew.
 */

export interface PlotLine {
  readonly name: string;
  readonly values: readonly (number | null)[];
}

export interface PlotOptions {
  readonly width: number;
  readonly height: number;
  /** Beginnings of the minutes, in ms since 1970. */
  readonly minutes: readonly number[];
  /** The minute below the pointer; null: it is elsewhere. */
  onPoint(index: number | null): void;
}

export interface LinesOptions extends PlotOptions {
  readonly lines: readonly PlotLine[];
  /** Top of the axis. */
  readonly top: number;
  text(value: number): string;
}

export interface HeatOptions extends PlotOptions {
  /** For each row, lowest first, one count a minute. */
  readonly rows: readonly (readonly number[])[];
  readonly names: readonly string[];
}

const AXIS_WIDTH = 52;
const AXIS_GAP = 8;

/** Draws lines into an element. The caller destroys what it returns. */
export function drawLines(target: HTMLElement, { lines, top, text, ...options }: LinesOptions): uPlot {
  const colors = colorsOf(target);
  return new uPlot(
    {
      ...common(options, colors),
      scales: { x: { time: false }, y: { range: [0, top] } },
      axes: [
        timeAxis(options.minutes, colors),
        { ...axis(colors), splits: () => [0, top / 2, top], values: (_, at) => at.map(text) },
      ],
      series: [
        {},
        ...lines.map(({ name }, index) => ({
          label: name,
          stroke: [colors.accent, colors.text, colors.muted][index % 3] ?? colors.text,
          width: 1.5,
          dash: [...(DASHES[index % DASHES.length] ?? [])],
          points: { show: lines.length > 0 && isSparse(lines[index]?.values ?? []) },
        })),
      ],
    },
    [options.minutes.map((at) => at / 1000), ...lines.map(({ values }) => [...values])],
    target,
  );
}

/** Draws counts by minute and row, the stronger the more. */
export function drawHeat(target: HTMLElement, { rows, names, ...options }: HeatOptions): uPlot {
  const colors = colorsOf(target);
  const most = Math.max(0, ...rows.flat());
  const fill = (plot: uPlot): void => {
    const { ctx, bbox } = plot;
    const width = bbox.width / options.minutes.length;
    const height = bbox.height / rows.length;
    const gap = Math.min(1, width / 4) * devicePixelRatio;
    ctx.save();
    ctx.fillStyle = colors.accent;
    for (const [y, row] of rows.entries()) {
      for (const [x, count] of row.entries()) {
        ctx.globalAlpha = heat(count, most);
        ctx.fillRect(bbox.left + x * width, bbox.top + (rows.length - 1 - y) * height, width - gap, height - gap);
      }
    }
    ctx.restore();
  };
  const minutes = options.minutes.map((at) => at / 1000);
  return new uPlot(
    {
      ...common(options, colors),
      scales: {
        x: { time: false, range: [(minutes[0] ?? 0) - 30, (minutes.at(-1) ?? 0) + 30] },
        y: { range: [0, rows.length] },
      },
      axes: [
        timeAxis(options.minutes, colors),
        {
          ...axis(colors),
          grid: { show: false },
          splits: () => names.map((_, index) => index + 0.5),
          values: () => [...names],
        },
      ],
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: { ...common(options, colors).hooks, draw: [fill] },
    },
    [minutes, minutes.map(() => null)],
    target,
  );
}

interface Colors {
  readonly accent: string;
  readonly text: string;
  readonly muted: string;
  readonly line: string;
  readonly font: string;
}

function colorsOf(element: HTMLElement): Colors {
  const style = getComputedStyle(element);
  const token = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return {
    accent: token('accent'),
    text: token('text'),
    muted: token('muted'),
    line: token('line'),
    font: `11px ${style.fontFamily}`,
  };
}

function common(
  { width, height, onPoint }: PlotOptions,
  colors: Colors,
): Pick<uPlot.Options, 'width' | 'height' | 'legend' | 'padding' | 'cursor' | 'hooks' | 'select'> {
  return {
    width,
    height,
    legend: { show: false },
    padding: [8, 12, 0, 0],
    select: { show: false, left: 0, top: 0, width: 0, height: 0 },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6, fill: colors.accent } },
    hooks: { setCursor: [(plot) => onPoint(plot.cursor.idx ?? null)] },
  };
}

function axis(colors: Colors): uPlot.Axis {
  return {
    stroke: colors.muted,
    font: colors.font,
    size: ({ ctx }, values) => {
      ctx.font = colors.font;
      const widths = (values ?? []).map((value) => ctx.measureText(value).width);
      return Math.max(AXIS_WIDTH, Math.ceil(Math.max(...widths)) + AXIS_GAP);
    },
    gap: AXIS_GAP,
    grid: { stroke: colors.line, width: 1 },
    ticks: { show: false },
  };
}

function timeAxis(minutes: readonly number[], colors: Colors): uPlot.Axis {
  const last = minutes.length - 1;
  const at = [0, Math.round(last / 2), last].map((index) => (minutes[index] ?? 0) / 1000);
  return {
    ...axis(colors),
    size: 28,
    grid: { show: false },
    splits: () => at,
    values: () => ['60 min', '30', 'now'],
  };
}

/** A line whose points have gaps between them shows only with dots. */
function isSparse(values: readonly (number | null)[]): boolean {
  return values.some(
    (value, index) => value !== null && (values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null,
  );
}
