import { useMemo } from 'preact/hooks';
import { errorPlace } from '../../../../src/fleet-rules/change-words.js';
import { baseName } from '../../../../src/fleet-rules/policy-files.js';
import { axisEnd } from '../../../../src/fleet-rules/time-axis.js';
import {
  type ClientBar,
  cameLater,
  clientBar,
  type Phase,
  statesOf,
  type TraceFigures,
  worstFirst,
} from '../../../../src/fleet-rules/waterfall.js';
import { count, DASH, duration, integer, measured, moment } from '../../../../src/fleet-rules/words.js';
import type { TraceClient } from '../../../../src/wire/trace.js';
import { Key, Keys } from '../../charts/key';
import { Icon, type IconName } from '../../parts/icon';
import { Section } from '../../parts/section';
import { linkTo, type Query } from '../../router';
import type { Trace } from './use-trace';

/** Rows at a time. */
const ROWS = 50;

/** States of a trace as people read them, with the shape and colour that they have on all pages. */
const STATES: Readonly<Record<string, readonly [word: string, icon: IconName, tone: string]>> = {
  applied: ['Acknowledged', 'acknowledged', 'accent'],
  refused: ['Refused', 'refused', 'red'],
  failing: ['Failing', 'warning', 'red'],
  pending: ['Told', 'told', 'accent'],
  not_heard: ['Not told', 'not_told', 'muted'],
  away: ['Away', 'away', 'amber'],
  replaced: ['Holds another', 'none', 'muted'],
  unknown: ['Does not say', 'does_not_say', 'muted'],
};

interface WaterfallProps {
  readonly id: string;
  readonly trace: Trace;
  readonly query: URLSearchParams;
  /** Start of the change; null: not known. */
  readonly from: number | null;
  readonly figures: TraceFigures;
  /** Milliseconds by the clock of the server. */
  readonly now: number;
  readonly isRunning: boolean;
}

/** What the change took at each client, those first that need a person. */
export function Waterfall({ id, trace, query, from, figures, now, isRunning }: WaterfallProps) {
  const { answer, clients, isCut } = trace;
  const wanted = query.get('state');
  const sorted = useMemo(
    () => worstFirst(clients.filter(({ state }) => wanted === null || state === wanted)),
    [clients, wanted],
  );
  const pages = Math.max(1, Math.ceil(sorted.length / ROWS));
  const page = Math.min(pages, Math.max(1, Number(query.get('page')) || 1));
  const shown = sorted.slice((page - 1) * ROWS, page * ROWS);
  const elapsedMs = from === null ? 0 : Math.max(0, now - from);
  const end = axisEnd({ running: isRunning, elapsedMs, lastMs: figures.lastMs });
  const link = (changes: Query): string =>
    linkTo('change', { id, query: { ...Object.fromEntries(query), ...changes } });

  return (
    <Section title="Per client" note={<WaterfallKeys />}>
      <nav class="filters states" aria-label="Clients by state">
        <a href={link({ state: undefined, page: undefined })} aria-current={wanted === null ? 'true' : undefined}>
          All {integer(answer.total)}
        </a>
        {statesOf(answer.counts).map(([state, clientsOf]) => (
          <a key={state} href={link({ state, page: undefined })} aria-current={wanted === state ? 'true' : undefined}>
            {stateOf(state)[0]} {integer(clientsOf)}
          </a>
        ))}
      </nav>
      <ul class="waterfall" aria-label="Clients, worst first">
        {shown.map((client) => (
          <Row
            key={client.client_id}
            client={client}
            now={now}
            isLater={from !== null && cameLater(client)}
            bar={from === null || cameLater(client) ? undefined : clientBar(client, { from, now })}
            end={end}
          />
        ))}
      </ul>
      <Pages page={page} pages={pages} clients={sorted.length} link={link} />
      {isCut && (
        <p class="muted">
          The first {count(clients.length, 'client')} by name are listed; <code>policysync trace {id}</code> has all.
        </p>
      )}
      <Clocks figures={figures} />
    </Section>
  );
}

interface RowProps {
  readonly client: TraceClient;
  readonly now: number;
  readonly isLater: boolean;
  readonly bar: ClientBar | undefined;
  /** What the right edge stands for. */
  readonly end: number;
}

function Row({ client, now, isLater, bar, end }: RowProps) {
  const [word, icon, tone] = stateOf(client.state);
  const { state, away_since: away, file, line, reason } = client;
  const why = (shownFile: string | null | undefined): string =>
    [
      `${errorPlace({ file: shownFile, line })} ${reason ?? ''}`.trim(),
      state === 'away' && away !== undefined ? `since ${moment(away, now)}` : '',
      isLater ? 'connected later' : '',
    ]
      .filter((text) => text !== '')
      .join(' \u00b7 ');
  const time = timeOf(client, bar);
  return (
    <li>
      <a class="fall-row" href={linkTo('client', { id: client.client_id })}>
        <code class="clip" title={client.client_id}>
          {client.client_id}
        </code>
        <span class="st">
          <Icon name={icon} tone={tone} />
          <span class="clip">{word}</span>
        </span>
        <Bar bar={bar} end={end} />
        <span class="clip why muted" title={why(file)}>
          {why(file == null ? file : baseName(file))}
        </span>
        <span class="num muted" title={titleOf(client, bar)}>
          {time}
        </span>
      </a>
    </li>
  );
}

const HEIGHTS: Readonly<Record<Phase, readonly [y: number, height: number]>> = {
  waiting: [5.5, 1],
  fetching: [3, 6],
  applying: [3, 6],
  reporting: [5, 2],
};

function Bar({ bar, end }: { readonly bar: ClientBar | undefined; readonly end: number }) {
  const part = (ms: number): string => `${Math.min(100, Math.max(0, (100 * ms) / end)).toFixed(2)}%`;
  return (
    <svg class="phases" height={12} aria-hidden="true" focusable="false">
      {bar?.segments.map(({ phase, from, to }) => {
        const [y, height] = HEIGHTS[phase];
        return phase === 'waiting' ? (
          <line key={phase} class="waiting" x1={part(from)} x2={part(to)} y1={6} y2={6} />
        ) : (
          <rect key={phase} class={phase} x={part(from)} width={part(to - from)} y={y} height={height} />
        );
      })}
      {bar !== undefined && bar.endedAt !== null && bar.refusedAt === null && (
        <rect class="reporting" x={part(bar.endedAt)} width={2} y={2} height={8} />
      )}
      {bar !== undefined && bar.refusedAt !== null && (
        <svg x={part(bar.refusedAt)} y={1} width={10} height={10} overflow="visible" aria-hidden="true">
          <path class="cross" d="M1 1l8 8M9 1l-8 8" />
        </svg>
      )}
    </svg>
  );
}

/** What the row says at its end: when it was done, or for how long it has been silent. */
function timeOf({ state, connected }: TraceClient, bar: ClientBar | undefined): string {
  if (bar === undefined) return DASH;
  if (bar.endedAt !== null) return measured(bar.endedAt / 1000);
  const told = bar.segments.find(({ phase }) => phase === 'waiting')?.to;
  if (state === 'pending' && connected) {
    const open = bar.segments.at(-1);
    return open === undefined ? DASH : `${duration((open.to - (told ?? 0)) / 1000)} silent`;
  }
  return DASH;
}

/** The phases in words: the bar itself says nothing to those who listen. */
function titleOf(client: TraceClient, bar: ClientBar | undefined): string {
  if (bar === undefined) return '';
  const words: Readonly<Record<Phase, string>> = {
    waiting: 'not told',
    fetching: 'fetching',
    applying: 'applying',
    reporting: 'until its report arrived',
  };
  const phases = bar.segments.map(({ phase, from, to }) => `${words[phase]} ${measured((to - from) / 1000)}`);
  const there = client.was_there ? [] : ['it connected later and does not count for the curve'];
  return [...phases, ...there].join(', ');
}

function stateOf(state: string): readonly [word: string, icon: IconName, tone: string] {
  return STATES[state] ?? [state.replaceAll('_', ' '), 'none', 'muted'];
}

function Pages({
  page,
  pages,
  clients,
  link,
}: {
  readonly page: number;
  readonly pages: number;
  readonly clients: number;
  readonly link: (changes: Query) => string;
}) {
  if (pages === 1) return null;
  const first = (page - 1) * ROWS + 1;
  return (
    <nav class="paging" aria-label="Pages of clients">
      {page > 1 ? (
        <a class="btn" href={link({ page: page === 2 ? undefined : page - 1 })}>
          Worse
        </a>
      ) : null}
      <span class="muted">
        {integer(first)} to {integer(Math.min(clients, first + ROWS - 1))} of {integer(clients)}
      </span>
      {page < pages ? (
        <a class="btn" href={link({ page: page + 1 })}>
          Better
        </a>
      ) : null}
    </nav>
  );
}

/** What is to know of the clocks behind the bars. */
function Clocks({ figures: { hasOwnTimes } }: { readonly figures: TraceFigures }) {
  if (!hasOwnTimes) return null;
  return (
    <p class="muted clocks">
      All times are by the clock of the server: a client says how long ago it fetched and applied. The time at the right
      is when it held the change.
    </p>
  );
}

function WaterfallKeys() {
  return (
    <Keys>
      <Key word="not told yet">
        <line class="waiting" x1="0" x2="22" y1="5" y2="5" />
      </Key>
      <Key word="told, fetching">
        <rect class="fetching" width="22" height="6" y="2" />
      </Key>
      <Key word="applying">
        <rect class="applying" width="22" height="6" y="2" />
      </Key>
      <Key word="report on its way">
        <rect class="reporting" width="22" height="2" y="4" />
      </Key>
    </Keys>
  );
}
