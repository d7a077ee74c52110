import { own } from '../../../../src/fleet-rules/names-of-others.js';
import { clock, integer, measured, moment } from '../../../../src/fleet-rules/words.js';
import type { TraceAnswer, TraceStage } from '../../../../src/wire/trace.js';

const WORDS: Readonly<Record<string, string>> = {
  received: 'Received',
  recorded: 'Recorded',
  durable: 'Durable',
  announced: 'Announced',
  found: 'Found',
  refused: 'Refused',
  checked: 'Checked',
  agreed: 'Agreed',
  served: 'Served',
};

interface StepsProps {
  readonly answer: TraceAnswer;
  /** Clients that had heard of the change, of those that were there. */
  readonly told: number;
  readonly isRunning: boolean;
  readonly now: number;
}

/** What happened to a change, and when, from the server to the last client. */
export function Steps({ answer: { stages, convergence }, told, isRunning, now }: StepsProps) {
  const [first] = stages;
  const from = convergence?.from ?? first?.at;
  const open = isRunning ? 'not yet' : 'held up';
  const reached =
    convergence === null || convergence.clients === 0
      ? []
      : ([
          ['First', convergence.first],
          ['Half', convergence.half],
          ['99 %', convergence.p99],
          ['Last', convergence.last],
        ] as const);
  return (
    <div class="steps-frame">
      <dl class="steps">
        {firstOfEach(stages).map((stage, index) => (
          <div key={stage.stage}>
            <dt>{stageWord(stage.stage)}</dt>
            <dd title={stageTitle(stages, stage.stage, now)}>
              {index === 0 || first === undefined ? clock(stage.at) : after(stage.at - first.at)}
            </dd>
          </div>
        ))}
        {convergence !== null && convergence.clients > 0 && (
          <div>
            <dt>Told</dt>
            <dd>
              {integer(told)} of {integer(convergence.clients)}
            </dd>
          </div>
        )}
        {reached.map(([name, at]) => (
          <div key={name}>
            <dt>{name}</dt>
            {at === null || from === undefined ? (
              <dd class="open">{open}</dd>
            ) : (
              <dd title={moment(at, now)}>{measured((at - from) / 1000)}</dd>
            )}
          </div>
        ))}
      </dl>
    </div>
  );
}

/** Each stage once, when the first instance reached it. */
export function firstOfEach(stages: readonly TraceStage[]): TraceStage[] {
  const known = new Set<string>();
  return stages.filter(({ stage }) => !known.has(stage) && known.add(stage));
}

export function stageWord(stage: string): string {
  return own(WORDS, stage) ?? stage;
}

function after(ms: number): string {
  return `+${measured(Math.max(0, ms) / 1000)}`;
}

/** All instances that reached a stage. */
function stageTitle(stages: readonly TraceStage[], wanted: string, now: number): string {
  return stages
    .filter(({ stage }) => stage === wanted)
    .map(({ at, instance, subscribers }) => {
      const ms = `${new Date(at).toISOString().slice(19, 23)}`;
      const to = subscribers === undefined ? '' : `, to ${integer(subscribers)} connections`;
      return `${moment(at, now).replace('\u00a0UTC', `${ms}\u00a0UTC`)}, ${instance === null ? 'the log' : `instance ${instance.slice(0, 8)}`}${to}`;
    })
    .join('\n');
}
