import './client.css';
import { type ReadonlySignal, useComputed } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { labelWord } from '../../../../src/fleet-rules/search.js';
import { moment } from '../../../../src/fleet-rules/words.js';
import type { ClientAnswer } from '../../../../src/wire/client-details.js';
import type { FleetRow } from '../../../../src/wire/fleet.js';
import { ApiError } from '../../api';
import type { App, PageProps } from '../../app';
import { Banner } from '../../parts/banner';
import { Empty, Failed, Loading } from '../../parts/empty';
import { PageHead } from '../../parts/section';
import { type Fetched, useGet } from '../../parts/use-get';
import { linkTo } from '../../router';
import { Actions } from './actions';
import { ClientError } from './client-error';
import { Facts } from './facts';
import { Standing } from './standing';
import { Problems, Topics, Transactions } from './tables';
import { useFresh } from './use-fresh';

/** One client: what it holds, how it is, what fails and why, and what it can be asked to do. */
export function ClientPage({ app, id = '' }: PageProps) {
  app.store.listed.value;
  const last = useRef<ReadonlySignal<FleetRow>>(undefined);
  const listed = app.store.rows.get(id);
  last.current = listed ?? last.current;
  if (last.current !== undefined) return <Client app={app} row={last.current} isGone={listed === undefined} />;
  if (app.store.summary.value === undefined) return <Loading title={id} />;
  return <Unknown app={app} id={id} />;
}

interface ClientProps {
  readonly app: App;
  readonly row: ReadonlySignal<FleetRow>;
  /** It is no longer listed. */
  readonly isGone: boolean;
}

function Client({ app, row, isGone }: ClientProps) {
  const id = useComputed(() => row.value.id).value;
  const [fetched, ask] = useGet<ClientAnswer>(app, isGone ? undefined : `/clients/${encodeURIComponent(id)}`);
  useFresh(fetched, ask, row);
  const answer = answerOf(fetched.value);
  const reportedAt = later(row.value.reported_at, answer?.client.reported_at);
  return (
    <div class="client">
      <PageHead
        title={<code>{id}</code>}
        above={{ text: 'Fleet', href: linkTo('fleet') }}
        end={<Actions app={app} row={row} answer={answer} isGone={isGone} onDone={ask} />}
      >
        <Labels row={row} />
      </PageHead>
      {isGone && (
        <Banner kind="warn" what="It is no longer listed.">
          It has been away for so long that the server forgot it; what follows is the last that was known.
        </Banner>
      )}
      <Standing row={row} now={app.now} served={app.store.summary.value?.policy.head ?? null} reportedAt={reportedAt} />
      {!isGone && !row.value.connected && (
        <Banner
          kind="warn"
          what={`It has been away since ${moment(row.value.away_since, app.now.value)}${awayReason(row.value)}.`}
        >
          Its engine goes on with what it holds. It catches up by itself when it is back: look whether it runs, and
          reaches a server.
        </Banner>
      )}
      <ClientError app={app} row={row} answer={answer} />
      <Rest app={app} row={row} fetched={fetched.value} ask={ask} />
    </div>
  );
}

function awayReason({ error }: FleetRow): string {
  return error?.kind === 'away' ? `: ${error.text}` : '';
}

/** What the server says of the client beside its row. */
function Rest({
  app,
  row,
  fetched,
  ask,
}: Pick<ClientProps, 'app' | 'row'> & { readonly fetched: Fetched<ClientAnswer>; readonly ask: () => void }) {
  if (fetched.kind === 'failed') {
    const isLimited = fetched.error instanceof ApiError && fetched.error.status === 403;
    return (
      <Failed
        what={isLimited ? 'Your token does not permit the rest.' : 'The rest is not known.'}
        error={fetched.error}
        retry={ask}
      />
    );
  }
  if (fetched.kind === 'loading') return <Loading title="What it holds" rows={5} />;
  return (
    <div class="columns">
      <div class="tables">
        <Topics answer={fetched.data} row={row} />
        <Problems answer={fetched.data} now={app.now} />
        <Transactions answer={fetched.data} now={app.now} />
      </div>
      <Facts
        app={app}
        answer={fetched.data}
        reportedAt={later(row.value.reported_at, fetched.data.client.reported_at)}
      />
    </div>
  );
}

/** Each leads to the clients that have it, too. */
function Labels({ row }: Pick<ClientProps, 'row'>) {
  const labels = Object.entries(row.value.labels);
  if (labels.length === 0) return null;
  return (
    <ul class="labels" aria-label="Labels">
      {labels.map(([label, value]) => (
        <li key={label}>
          <a class="tag" href={linkTo('fleet', { query: { q: labelWord(label, value) } })}>
            {label}={value}
          </a>
        </li>
      ))}
    </ul>
  );
}

function Unknown({ app, id }: { readonly app: App; readonly id: string }) {
  const isLimited = app.store.summary.value?.limited === true;
  return (
    <Empty title="Unknown client">
      <p>
        The server lists no client <code>{id}</code>.{' '}
        {isLimited
          ? 'Your token is limited to topics: this client may subscribe to others.'
          : 'It never connected, or was away so long that it was forgotten; without a fixed id it gets another name with each start.'}
      </p>
      <a class="btn" href={linkTo('fleet', { query: { q: id.replace(/[-_.:][^-_.:]*$/, '') } })}>
        Look for names like it
      </a>
    </Empty>
  );
}

function answerOf(fetched: Fetched<ClientAnswer>): ClientAnswer | undefined {
  return fetched.kind === 'ready' ? fetched.data : undefined;
}

/**
 * A row is told anew where something changes; a mere report is not, and the answer may know a later
 * one.
 */
function later(one: number | null, other: number | null | undefined): number | null {
  if (one === null || other === null || other === undefined) return one ?? other ?? null;
  return Math.max(one, other);
}
