import './change.css';
import { useMemo } from 'preact/hooks';
import { changeSize, changeTitle, errorPlace } from '../../../../src/fleet-rules/change-words.js';
import { sharedReasons, traceFigures } from '../../../../src/fleet-rules/waterfall.js';
import { commit, count, integer } from '../../../../src/fleet-rules/words.js';
import type { FleetChange } from '../../../../src/wire/fleet.js';
import type { PolicySourceAnswer } from '../../../../src/wire/fleet-views.js';
import type { TraceAnswer } from '../../../../src/wire/trace.js';
import { ApiError } from '../../api';
import type { App, PageProps } from '../../app';
import { Key, Keys } from '../../charts/key';
import { Banner } from '../../parts/banner';
import { Empty, Failed, Loading } from '../../parts/empty';
import { ErrorBlock } from '../../parts/error-block';
import { PageHead, Section } from '../../parts/section';
import { useGet } from '../../parts/use-get';
import { linkTo } from '../../router';
import { ConvergenceChart } from './convergence-chart';
import { CopyLink } from './copy-link';
import { Steps } from './steps';
import { changeOf, type Trace, useTrace } from './use-trace';
import { Waterfall } from './waterfall';

/** What became of one change: at the server, and at each client. */
export function ChangePage({ app, id = '', query }: PageProps) {
  const [traced, again] = useTrace(app, id);
  const state = traced.value;
  if (state.kind === 'loading') return <Loading title={`Change ${id.slice(0, 12)}`} />;
  if (state.kind === 'failed')
    return state.error instanceof ApiError && state.error.status === 404 ? (
      <UnknownChange app={app} id={id} why={state.error.message} />
    ) : (
      <>
        <PageHead title={`Change ${id.slice(0, 12)}`} above={ABOVE} />
        <Failed what="The trace of this change is not here." error={state.error} retry={again} />
      </>
    );
  return (
    <>
      <Head app={app} answer={state.data.answer} />
      {state.error !== undefined && (
        <Failed what="What is below may be old: the last look failed." error={state.error} retry={again} />
      )}
      <Body app={app} id={id} trace={state.data} query={query} />
    </>
  );
}

const ABOVE = { text: 'Changes', href: linkTo('changes') };

/** What the stream, or the policy source, knows of a change beside its trace. */
function Head({ app, answer }: { readonly app: App; readonly answer: TraceAnswer }) {
  const isCommit = answer.kind === 'commit';
  const change = changeOf(app.store.changes.value, isCommit ? answer.id : String(answer.seq ?? answer.id));
  const [source] = useGet<PolicySourceAnswer>(app, isCommit && change === undefined ? '/policy/source' : undefined);
  const known =
    source.value.kind === 'ready' ? source.value.data.commits.find(({ hash }) => hash === answer.id) : undefined;
  const title = titleOf(answer, change, known?.title);
  const topics = answer.topics ?? change?.topics ?? [];
  const more = (answer.topics_total ?? topics.length) - topics.length;
  const facts = [
    change?.by ?? answer.publisher ?? known?.author ?? '',
    change === undefined ? '' : changeSize(change),
    topics.length === 0
      ? ''
      : `${topics.length === 1 ? 'topic' : 'topics'} ${topics.join(', ')}${more > 0 ? ` and ${integer(more)} more` : ''}`,
    (answer.paths ?? change?.paths ?? []).join(', '),
  ].filter((text) => text !== '');
  return (
    <>
      <PageHead
        title={title}
        above={ABOVE}
        end={
          <>
            {isCommit ? (
              <a class="btn" href={linkTo('policy', { query: { to: answer.id } })}>
                Diff
              </a>
            ) : (
              <a class="btn" href={linkTo('data', { query: { path: answer.paths?.[0] } })}>
                Paths
              </a>
            )}
            <a
              class="btn"
              href={linkTo('fleet', { query: { q: topics.length === 1 ? `topic:${topics[0]}` : undefined } })}
            >
              Clients
            </a>
            <CopyLink app={app} />
          </>
        }
      >
        <code class="muted" title={answer.id}>
          {isCommit ? commit(answer.id) : `seq ${integer(answer.seq)}`}
        </code>
      </PageHead>
      <p class="muted about clip" title={facts.join(' \u00b7 ')}>
        {facts.join(' \u00b7 ')}
      </p>
    </>
  );
}

function titleOf(answer: TraceAnswer, change: FleetChange | undefined, known: string | undefined): string {
  if (change !== undefined) return changeTitle(change);
  const kind = answer.kind === 'commit' ? 'policy' : 'data';
  const title = known ?? answer.reason ?? '';
  return changeTitle({ kind, title, paths: answer.paths ?? [], size: answer.paths?.length ?? null });
}

interface BodyProps {
  readonly app: App;
  readonly id: string;
  readonly trace: Trace;
  readonly query: URLSearchParams;
}

function Body({ app, id, trace, query }: BodyProps) {
  const { answer, clients } = trace;
  const { convergence, notes, counts } = answer;
  const change = changeOf(app.store.changes.value, id);
  const isRunning = isUnderWay(answer, change);
  // A change that rests is drawn when it changes; one that moves with the clock.
  const now = isRunning ? Math.max(app.now.value, answer.now) : answer.now;
  const hasCurve = convergence !== null && convergence.clients > 0;
  const from = convergence?.from ?? null;
  const figures = useMemo(() => traceFigures(clients, from ?? 0), [clients, from]);
  return (
    <>
      {notes.map((note) => (
        <Banner key={note} kind="warn" what="This answer has a limit:">
          {note}.
        </Banner>
      ))}
      {answer.error !== undefined && <Refusal error={change?.error ?? answer.error} />}
      {hasCurve && (
        <Section title="Convergence" note={<ChartKeys refused={(counts.refused ?? 0) > 0} />}>
          <ConvergenceChart convergence={convergence} figures={figures} isRunning={isRunning} now={now} />
        </Section>
      )}
      {answer.stages.length > 0 && <Steps answer={answer} told={figures.told.length} isRunning={isRunning} now={now} />}
      <Reasons clients={clients} id={id} />
      {answer.total === 0 ? (
        answer.state !== 'refused' && <p class="muted nobody">No client subscribes to it now.</p>
      ) : (
        <Waterfall id={id} trace={trace} query={query} from={from} figures={figures} now={now} isRunning={isRunning} />
      )}
    </>
  );
}

/**
 * Clients are expected to come to hold it. The stream knows best; of a change that it has left
 * behind the counts say it.
 */
function isUnderWay({ counts, convergence }: TraceAnswer, change: FleetChange | undefined): boolean {
  if (change !== undefined) return change.state === 'under_way';
  return convergence !== null && convergence.last === null && (counts.pending ?? 0) + (counts.not_heard ?? 0) > 0;
}

/** Reasons that are shown in full; each client has its own beside it. */
const REASONS = 3;

/** Why clients do not hold the change, each reason once. */
function Reasons({ clients, id }: { readonly clients: Trace['clients']; readonly id: string }) {
  const reasons = useMemo(() => sharedReasons(clients), [clients]);
  if (reasons.length === 0) return null;
  return (
    <div class="refusal reasons">
      {reasons.slice(0, REASONS).map((reason) => (
        <ErrorBlock key={JSON.stringify(reason)} place={errorPlace(reason)} message={reason.message}>
          <a href={linkTo('change', { id, query: { state: reason.state } })}>{count(reason.clients, 'client')}</a>{' '}
          {reason.state === 'refused'
            ? `${reason.clients === 1 ? 'refuses' : 'refuse'} it and ${reason.clients === 1 ? 'goes' : 'go'} on with what ${reason.clients === 1 ? 'it holds' : 'they hold'}.`
            : `${reason.clients === 1 ? 'fails' : 'fail'} with it and ${reason.clients === 1 ? 'tries' : 'try'} again.`}
        </ErrorBlock>
      ))}
      {reasons.length > REASONS && (
        <p class="muted">There are {count(reasons.length - REASONS, 'more reason')}, each beside its client below.</p>
      )}
    </div>
  );
}

function Refusal({ error }: { readonly error: NonNullable<FleetChange['error']> }) {
  return (
    <div class="refusal">
      <ErrorBlock place={errorPlace(error)} message={error.message}>
        The server refused this commit and announced nothing. Clients go on with the commit that they hold; the next
        good commit replaces it.{error.code === undefined ? '' : ` Code: ${error.code}.`}
      </ErrorBlock>
    </div>
  );
}

function UnknownChange({ app, id, why }: { readonly app: App; readonly id: string; readonly why: string }) {
  return (
    <Empty title="No such change">
      <p>
        {why.charAt(0).toUpperCase()}
        {why.slice(1)}. What is neither in the log (now at {integer(app.store.head.value)}) nor in the memory of a
        server cannot be traced, and a token with limits only finds what it may see.
      </p>
      <p>
        Asked for: <code>{id}</code>
      </p>
      <a class="btn" href={ABOVE.href}>
        All changes
      </a>
    </Empty>
  );
}

function ChartKeys({ refused }: { readonly refused: boolean }) {
  return (
    <Keys>
      <Key word="acknowledged">
        <line class="held" x1="0" x2="22" y1="5" y2="5" />
      </Key>
      <Key word="told">
        <line class="told-line" x1="0" x2="22" y1="5" y2="5" />
      </Key>
      {refused && (
        <Key word="refused">
          <path class="cross" d="M7 1l8 8M15 1l-8 8" />
        </Key>
      )}
    </Keys>
  );
}
