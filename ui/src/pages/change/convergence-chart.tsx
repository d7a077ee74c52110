import { useMemo, useRef } from 'preact/hooks';
import { type Box, type CurveStep, stepArea, stepLine, xOf, yOf } from '../../../../src/fleet-rules/step-path.js';
import { axisEnd, axisTicks, tickText } from '../../../../src/fleet-rules/time-axis.js';
import type { TraceFigures } from '../../../../src/fleet-rules/waterfall.js';
import { count, integer, measured } from '../../../../src/fleet-rules/words.js';
import type { TraceConvergence } from '../../../../src/wire/trace.js';
import { useWidth } from '../../charts/use-width';
import { MINOR, merged, placedCaptions } from './captions';

const HEIGHT = 232;
const ROOM = { left: 44, right: 12, top: 40, bottom: 24 };
/** Pixels that a name on the time axis takes. */
const TICK_WIDTH = 84;

interface ConvergenceChartProps {
  readonly convergence: TraceConvergence;
  readonly figures: TraceFigures;
  readonly isRunning: boolean;
  /** Milliseconds by the clock of the server. */
  readonly now: number;
}

/**
 * How the clients came to hold a change: those that hold it, those that had heard of it, and those
 * that refuse it.
 */
export function ConvergenceChart({ convergence, figures, isRunning, now }: ConvergenceChartProps) {
  const figure = useRef<HTMLElement>(null);
  const width = useWidth(figure);
  const { from, first, half, p99, last, curve } = convergence;
  const held = useMemo(
    () => curve.map(({ at, applied }): CurveStep => ({ at: at - from, count: applied })),
    [curve, from],
  );
  const { told, refused } = figures;
  const elapsedMs = Math.max(0, now - from);
  const lastMs = Math.max(held.at(-1)?.at ?? 0, (last ?? from) - from, ...refused.slice(0, 1000));
  const end = axisEnd({ running: isRunning, elapsedMs, lastMs });
  const until = isRunning ? Math.min(elapsedMs, end) : end;
  const most = Math.max(1, convergence.clients);
  const text = summary(convergence, refused.length);

  return (
    <figure ref={figure} class="convergence">
      {width > 0 && (
        <svg class="chart" viewBox={`0 0 ${width} ${HEIGHT}`} height={HEIGHT} role="img" aria-label={text}>
          {draw()}
        </svg>
      )}
    </figure>
  );

  function draw() {
    const box: Box = {
      left: Math.max(ROOM.left, 12 + 7 * integer(most).length),
      right: width - ROOM.right,
      top: ROOM.top,
      bottom: HEIGHT - ROOM.bottom,
      end,
      most,
    };
    const line = stepLine(held, box, until);
    const nowX = xOf(box, elapsedMs);
    const marks = merged(
      [
        { name: 'first', at: first },
        { name: 'half', at: half },
        { name: MINOR, at: p99 },
        { name: 'last', at: last },
      ].flatMap(({ name, at }) =>
        at === null ? [] : [{ x: xOf(box, at - from), name, time: measured((at - from) / 1000) }],
      ),
    );
    return (
      <>
        {[...new Set([0, Math.round(most / 2), most])].map((level) => (
          <g key={level}>
            <line class="grid" x1={box.left} x2={box.right} y1={yOf(box, level)} y2={yOf(box, level)} />
            <text x={box.left - 8} y={yOf(box, level) + 4} text-anchor="end">
              {integer(level)}
            </text>
          </g>
        ))}
        {axisTicks(end, Math.max(2, Math.floor((box.right - box.left) / TICK_WIDTH))).map((at) => {
          const x = xOf(box, at);
          return (
            <text
              key={at}
              x={x}
              y={HEIGHT - 6}
              text-anchor={at === 0 ? 'start' : x > box.right - 16 ? 'end' : 'middle'}
            >
              {tickText(at, end)}
            </text>
          );
        })}
        <path class="area" d={stepArea(line, box)} />
        <path class="told-line" d={stepLine(told, box, until)} />
        <path class="held" d={line} />
        {refused.slice(0, 200).map((at, index) => (
          <path key={index} class="cross" d={cross(xOf(box, at), box.bottom - 10)} />
        ))}
        {placedCaptions(marks, box).map(({ x, text: caption, lane, anchor }) => (
          <g key={caption}>
            <line class="mark" x1={x} x2={x} y1={box.top - 4 - lane * 14} y2={box.bottom} />
            <text
              class="caption rim"
              x={anchor === 'end' ? x - 4 : x + 4}
              y={box.top - 6 - lane * 14}
              text-anchor={anchor}
            >
              {caption}
            </text>
          </g>
        ))}
        {isRunning && elapsedMs <= end && (
          <>
            <line class="now" x1={nowX} x2={nowX} y1={box.top} y2={box.bottom} />
            <text
              class="caption rim"
              x={nowX > box.right - 90 ? nowX - 6 : nowX + 6}
              y={labelY(box, held.at(-1)?.count ?? 0, nowX > box.right - 90)}
              text-anchor={nowX > box.right - 90 ? 'end' : 'start'}
            >
              {`${integer(held.at(-1)?.count ?? 0)} of ${integer(convergence.clients)}`}
            </text>
          </>
        )}
      </>
    );
  }
}

/**
 * Beside the end of the curve: below it at the right, above it at the left, where the curve is
 * lower.
 */
function labelY(box: Box, count: number, isLeft: boolean): number {
  const y = yOf(box, count);
  return isLeft ? Math.max(box.top + 12, y - 8) : Math.min(box.bottom - 6, Math.max(box.top + 12, y + 16));
}

function cross(x: number, y: number): string {
  return `M${x - 4} ${y - 4}l8 8M${x + 4} ${y - 4}l-8 8`;
}

/** The chart in words. */
function summary({ from, clients, first, half, p99, last, curve }: TraceConvergence, refused: number): string {
  const held = curve.at(-1)?.applied ?? 0;
  const times = [
    ['the first after', first],
    ['half after', half],
    ['99 % after', p99],
    ['the last after', last],
  ].flatMap(([name, at]) => (typeof at === 'number' ? [`${name} ${measured((at - from) / 1000)}`] : []));
  const facts = [
    `${integer(held)} of ${count(clients, 'client')} hold the change`,
    ...times,
    ...(refused > 0 ? [`${count(refused, 'client')} refuse it`] : []),
  ];
  return `${facts.join(', ')}.`;
}
