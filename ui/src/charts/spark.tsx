import './charts.css';
import { type Box, stepArea, stepLine, xOf } from '../../../src/fleet-rules/step-path.js';
import { axisEnd } from '../../../src/fleet-rules/time-axis.js';
import type { FleetChange } from '../../../src/wire/fleet.js';

const WIDTH = 168;
const HEIGHT = 32;

interface SparkProps {
  readonly change: Pick<FleetChange, 'convergence' | 'state'>;
  /** Milliseconds by the clock of the server. */
  readonly now: number;
}

/**
 * The curve of convergence of a change, small: it touches the dashed line when everyone holds the
 * change.
 */
export function Spark({ change: { convergence, state }, now }: SparkProps) {
  if (state === 'refused') return <span class="spark-none muted">never announced</span>;
  if (convergence === null) return <span class="spark-none muted">no times kept</span>;
  const { from, clients, curve, last } = convergence;
  if (clients === 0) return <span class="spark-none muted">nobody was connected</span>;
  const isRunning = state === 'under_way' && last === null;
  const lastMs = (last ?? curve.at(-1)?.at ?? from) - from;
  const elapsedMs = Math.max(0, now - from);
  const end = axisEnd({ running: isRunning, elapsedMs, lastMs });
  const box: Box = { left: 0, right: WIDTH, top: 2, bottom: HEIGHT - 2, end, most: Math.max(1, clients) };
  const line = stepLine(
    curve.map(({ at, applied }) => ({ at: at - from, count: applied })),
    box,
    isRunning ? Math.min(elapsedMs, end) : end,
  );
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
      focusable="false"
    >
      <line class="aim" x1={0} x2={WIDTH} y1={box.top} y2={box.top} />
      <line class="base" x1={0} x2={WIDTH} y1={box.bottom} y2={box.bottom} />
      <path class="area" d={stepArea(line, box)} />
      <path class="held" d={line} />
      {isRunning && elapsedMs <= end && (
        <line class="now" x1={xOf(box, elapsedMs)} x2={xOf(box, elapsedMs)} y1={box.top} y2={box.bottom} />
      )}
    </svg>
  );
}
