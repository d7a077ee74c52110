import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { changeTitle } from '../../../../src/fleet-rules/change-words.js';
import { type Progress, progressOf } from '../../../../src/fleet-rules/progress.js';
import { commit, count, DASH, integer, measured, moment } from '../../../../src/fleet-rules/words.js';
import type { FleetChange } from '../../../../src/wire/fleet.js';
import type { App } from '../../app';
import { linkTo } from '../../router';

interface UnderWayProps {
  readonly app: App;
  readonly change: FleetChange;
}

/**
 * The change that is on its way to the fleet, or was the last: for how long, and when the first,
 * half, 99 % and the last held it. `others` are held up, too.
 */
export function UnderWay({ app, change, others = 0 }: UnderWayProps & { readonly others?: number | undefined }) {
  const isPast = app.stream.value.kind !== 'live';
  const progress = progressOf(change, app.store.at.value);
  const isRunning = progress.kind === 'running' && !isPast;
  return (
    <div class="under-way">
      <a class="what clip" href={linkTo('change', { id: change.id })} title={changeTitle(change)}>
        {changeTitle(change)}
      </a>
      {isRunning ? <RunningTime app={app} change={change} /> : <Timer {...timerText(progress, isPast)} />}
      <p class="by muted">
        {change.kind === 'policy' ? <code>{commit(change.id)}</code> : `seq ${integer(Number(change.id))}`}
        {change.by !== null && (
          <span class="clip" title={change.by}>
            by {change.by}
          </span>
        )}
        <span>{moment(change.at, app.store.at.value)}</span>
      </p>
      {progress.alone !== '' ? (
        <p class="marks">{progress.alone}</p>
      ) : (
        <dl class="marks">
          {progress.marks.map(({ name, seconds }) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd class={seconds === null ? 'open' : undefined}>
                {seconds === null ? OPEN_MARKS[progress.kind] : measured(seconds)}
              </dd>
            </div>
          ))}
        </dl>
      )}
      {others > 0 && (
        <a class="others" href={linkTo('changes', { query: { kind: 'refused' } })}>
          and {count(others, 'other')} held up
        </a>
      )}
    </div>
  );
}

const OPEN_MARKS: Readonly<Record<Progress['kind'], string>> = {
  running: 'not yet',
  held_up: 'held up',
  complete: DASH,
  silent: DASH,
};

function timerText({ kind, seconds }: Progress, isPast: boolean): { text: string; isQuiet: boolean } {
  if (isPast) return { text: DASH, isQuiet: true };
  if (kind === 'held_up') return { text: 'Held up', isQuiet: false };
  if (seconds === null) return { text: DASH, isQuiet: true };
  return { text: `in ${measured(seconds)}`, isQuiet: false };
}

function Timer({ text, isQuiet = false }: { readonly text: string; readonly isQuiet?: boolean }) {
  return <span class={isQuiet ? 'timer muted' : 'timer'}>{text}</span>;
}

/** How often the running time is drawn, in milliseconds. */
const TICK_MS = 250;

/** Time that runs: four times a second, and not while the tab is hidden. */
function RunningTime({ app, change }: UnderWayProps) {
  const now = useSignal(app.time());
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) now.value = app.time();
    }, TICK_MS);
    return () => clearInterval(timer);
  }, [app, now]);
  return <Timer text={measured(progressOf(change, now.value).seconds)} />;
}
