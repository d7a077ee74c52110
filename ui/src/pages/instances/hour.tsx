import { useCallback, useMemo } from 'preact/hooks';
import { boundOf, type LastHour, type Line } from '../../../../src/fleet-rules/last-hour.js';
import { countTop, niceTop } from '../../../../src/fleet-rules/time-axis.js';
import { clock, DASH, duration, integer, NBSP } from '../../../../src/fleet-rules/words.js';
import { Key, Keys } from '../../charts/key';
import { Section } from '../../parts/section';
import { Chart, type Plots } from './chart';
import { DASHES } from './dashes';
import type { PlotOptions } from './plot';

/** The charts of the last hour. */
export function Hour({ hour }: { readonly hour: LastHour }) {
  const backbone = hour.backbone.some(({ values }) => values.some((value) => value !== null));
  return (
    <Section title="Last hour" note="kept in memory, one point a minute">
      <div class="hours">
        <Latency hour={hour} />
        <Lines
          title="Publishes"
          unit="a minute"
          minutes={hour.minutes}
          lines={[hour.publishes]}
          text={integer}
          isWhole
        />
        <Lines title="Deliveries" unit="a second" minutes={hour.minutes} lines={hour.deliveries} text={figure} />
        {backbone && (
          <Lines title="Backbone round trip" unit="ms" minutes={hour.minutes} lines={hour.backbone} text={figure} />
        )}
      </div>
    </Section>
  );
}

interface LinesProps {
  readonly title: string;
  readonly unit: string;
  readonly minutes: readonly number[];
  readonly lines: readonly Line[];
  readonly text: (value: number) => string;
  readonly isWhole?: boolean;
}

function Lines({ title, unit, minutes, lines, text, isWhole = false }: LinesProps) {
  const top = (isWhole ? countTop : niceTop)(most(lines));
  const draw = useCallback(
    (plots: Plots, target: HTMLElement, options: PlotOptions) =>
      plots.drawLines(target, { ...options, lines, top, text }),
    [lines, top, text],
  );
  const valueAt = ({ values }: Line, index: number | null): string => {
    const value = index === null ? lastOf(values) : (values[index] ?? null);
    return value === null ? DASH : text(value);
  };
  return (
    <Chart
      title={title}
      unit={unit}
      minutes={minutes}
      text={lines.map((line) => inWords(line, minutes, text, lines.length > 1)).join(' ')}
      draw={draw}
      note={(index) => (
        <Keys>
          {index !== null && <span>{timeAt(minutes, index)}</span>}
          {lines.map((line, at) => (
            <Key
              key={line.name}
              word={lines.length > 1 ? `${line.name} ${valueAt(line, index)}` : valueAt(line, index)}
            >
              <line
                class={`hour-line colour-${at % 3}`}
                x1="0"
                x2="22"
                y1="5"
                y2="5"
                stroke-dasharray={DASHES[at % DASHES.length]?.join(' ') || undefined}
              />
            </Key>
          ))}
        </Keys>
      )}
    />
  );
}

function Latency({ hour }: { readonly hour: LastHour }) {
  const { latency, buckets, minutes } = hour;
  const names = useMemo(() => [...buckets.map(boundText), `> ${boundText(buckets.at(-1) ?? 0)}`], [buckets]);
  // Empty buckets above the highest that counts say nothing.
  const rows = Math.max(6, latency.findLastIndex((row) => row.some((count) => count > 0)) + 1);
  const draw = useCallback(
    (plots: Plots, target: HTMLElement, options: PlotOptions) =>
      plots.drawHeat(target, { ...options, rows: latency.slice(0, rows), names: names.slice(0, rows) }),
    [latency, names, rows],
  );
  const within = (part: number, of: Pick<LastHour, 'latency' | 'buckets'>): string => {
    const bound = boundOf(of, part);
    if (bound === undefined) return DASH;
    return Number.isFinite(bound) ? `within ${boundText(bound)}` : `over ${boundText(buckets.at(-1) ?? 0)}`;
  };
  const total = latency.reduce((sum, row) => sum + row.reduce((all, count) => all + count, 0), 0);
  return (
    <Chart
      title="Apply latency"
      unit="updates by bucket"
      minutes={minutes}
      text={
        total === 0
          ? 'No client has applied an update in the last hour.'
          : `${integer(total)} applied updates: half ${within(0.5, hour)}, 99 % ${within(0.99, hour)}.`
      }
      draw={draw}
      note={(index) => {
        if (total === 0) return 'nothing applied';
        if (index === null) return `half ${within(0.5, hour)}, 99${NBSP}% ${within(0.99, hour)}`;
        const minute = { buckets, latency: latency.map((row) => [row[index] ?? 0]) };
        const count = minute.latency.reduce((sum, [one = 0]) => sum + one, 0);
        return `${timeAt(minutes, index)}: ${integer(count)} applied, 99${NBSP}% ${within(0.99, minute)}`;
      }}
    />
  );
}

/** A line in words: what it has now, and its most. */
function inWords(
  { name, values }: Line,
  minutes: readonly number[],
  text: (value: number) => string,
  named: boolean,
): string {
  const known = values.flatMap((value) => value ?? []);
  const last = lastOf(values);
  const start = named ? `${name}: ` : '';
  if (last === null) return `${start}no figures.`;
  const highest = Math.max(...known);
  return `${start}${text(last)} now, at most ${text(highest)} at ${timeAt(minutes, values.indexOf(highest))}.`;
}

function lastOf(values: readonly (number | null)[]): number | null {
  return values.findLast((value) => value !== null) ?? null;
}

function most(lines: readonly Line[]): number {
  return Math.max(0, ...lines.flatMap(({ values }) => values.flatMap((value) => value ?? [])));
}

/** The bound of a bucket: `300 ms`, `3 s`. */
function boundText(seconds: number): string {
  return seconds < 1 ? duration(seconds) : `${seconds}${NBSP}s`;
}

/** A figure with as many decimals as it needs. */
function figure(value: number): string {
  if (value === 0 || value >= 10) return integer(Math.round(value));
  return value.toFixed(value < 1 ? 2 : 1);
}

function timeAt(minutes: readonly number[], index: number): string {
  return clock(minutes[index]).slice(0, 5);
}
