import './policy.css';
import { errorPlace } from '../../../../src/fleet-rules/change-words.js';
import { age, count, commit as short } from '../../../../src/fleet-rules/words.js';
import type {
  PolicyCommit,
  PolicyDiffAnswer,
  PolicyFilesAnswer,
  PolicySourceAnswer,
} from '../../../../src/wire/fleet-views.js';
import type { App, PageProps } from '../../app';
import { Banner } from '../../parts/banner';
import { Empty, Failed, Loading } from '../../parts/empty';
import { ErrorBlock } from '../../parts/error-block';
import { PageHead } from '../../parts/section';
import { useGet } from '../../parts/use-get';
import { useReading } from '../../parts/use-reading';
import { linkTo } from '../../router';
import { Commits } from './commits';
import { Diff } from './diff';
import { Files } from './files';
import { LookNow } from './look-now';

const EVERY_MS = 2000;
/** What the server says of its last look changes without the stream. */
const LOOK_EVERY_MS = 15_000;

/** Where policies come from, the commits, and what is in them. */
export function PolicyPage({ app, query }: PageProps) {
  const { store, now, api, stream } = app;
  const [reading, again] = useReading({
    stream,
    key: 'source',
    everyMs: EVERY_MS,
    moved: `${JSON.stringify(store.source.value)} ${Math.floor(now.value / LOOK_EVERY_MS)}`,
    read: (signal) => api.get<PolicySourceAnswer>('/policy/source', {}, signal),
  });
  const { value } = reading;
  if (value.kind === 'loading') return <Loading title="Policy" />;
  if (value.kind === 'failed')
    return (
      <>
        <PageHead title="Policy" />
        <Failed what="The policy source is not known." error={value.error} retry={again} />
      </>
    );
  const source = value.data;
  if (source.type === 'none') return <NoSource />;
  return (
    <>
      <PageHead
        title="Policy"
        end={
          <>
            <span class="muted">{lastLook(source, now.value)}</span>
            <LookNow app={app} onLooked={again} />
          </>
        }
      >
        <code class="muted clip" title={source.source ?? undefined}>
          {source.source}
        </code>
        {source.branch !== null && <span class="tag">{source.branch}</span>}
        {source.type === 'API' && <span class="tag">bundle server</span>}
      </PageHead>
      <Notes source={source} />
      {source.commits.length === 0 ? <NoCommit source={source} /> : <Chosen app={app} source={source} query={query} />}
    </>
  );
}

const LOOK_RESULTS: Readonly<Record<string, string>> = {
  new: 'a new commit',
  same: 'nothing new',
  failed: 'it failed',
};

function lastLook({ last_look: at, last_look_result: result }: PolicySourceAnswer, now: number): string {
  if (at === null) return 'Not looked yet';
  const what = result === null ? '' : `: ${LOOK_RESULTS[result] ?? result}`;
  return `Last look ${age(at, now)} ago${what}`;
}

/** Warnings of a commit that are shown. */
const WARNINGS = 5;

/**
 * What is to know of the served commit; that the source fails, or its newest commit is refused, is
 * said above every page.
 */
function Notes({ source: { status } }: { readonly source: PolicySourceAnswer }) {
  if (status === null) return null;
  const { wanted, warnings = [] } = status;
  return (
    <>
      {wanted !== undefined && (
        <Banner kind="warn" what={`The servers agreed on ${short(wanted)}, which is not here yet.`}>
          This server fetches it.
        </Banner>
      )}
      {warnings.slice(0, WARNINGS).map((warning) => (
        <Banner key={warning} kind="warn" what="To know of the served commit:">
          {warning}
        </Banner>
      ))}
      {warnings.length > WARNINGS && (
        <p class="muted quiet">
          There are {count(warnings.length - WARNINGS, 'more warning')}; Files has those of each file.
        </p>
      )}
    </>
  );
}

interface ChosenProps {
  readonly app: App;
  readonly source: PolicySourceAnswer;
  readonly query: URLSearchParams;
}

/** The commits beside what one of them has. */
function Chosen({ app, source: { commits }, query }: ChosenProps) {
  const tab = query.get('tab') === 'files' ? 'files' : 'diff';
  const to = query.get('to') ?? commits.find(({ state }) => state === 'head')?.hash ?? commits[0]?.hash ?? '';
  const from = query.get('from') ?? baseOf(commits, to);
  const chosen = commits.find(({ hash }) => hash === to);
  const link = (name: string): string =>
    linkTo('policy', { query: { ...Object.fromEntries(query), tab: name === 'diff' ? undefined : name } });
  return (
    <div class="policy-split">
      <Commits app={app} commits={commits} chosen={to} tab={tab} />
      <div class="policy-part">
        <div class="tabs">
          <nav aria-label="What to show">
            <a href={link('diff')} aria-current={tab === 'diff' ? 'page' : undefined}>
              Diff
            </a>
            <a href={link('files')} aria-current={tab === 'files' ? 'page' : undefined}>
              Files
            </a>
          </nav>
          <span class="end">
            {tab === 'diff' && (
              <>
                <Select
                  label="From commit"
                  value={from ?? ''}
                  commits={commits}
                  also={from}
                  onChoose={(hash) => app.router.setQuery({ from: hash, to }, 'go')}
                />
                <span class="muted">to</span>
              </>
            )}
            <Select
              label={tab === 'diff' ? 'To commit' : 'Commit'}
              value={to}
              commits={commits}
              also={to}
              onChoose={(hash) => app.router.setQuery({ to: hash }, 'go')}
            />
          </span>
        </div>
        {chosen?.error != null && (
          <div class="refusal">
            <ErrorBlock place={errorPlace(chosen.error)} message={chosen.error.message}>
              The server refused this commit and announced nothing.{' '}
              <a href={linkTo('change', { id: chosen.hash })}>What became of it</a>
            </ErrorBlock>
          </div>
        )}
        {tab === 'diff' ? <DiffOf app={app} from={from} to={to} /> : <FilesOf app={app} commit={to} />}
      </div>
    </div>
  );
}

/**
 * The commit before one that was not refused: what clients held before. undefined: the server knows
 * best.
 */
function baseOf(commits: readonly PolicyCommit[], to: string): string | undefined {
  const at = commits.findIndex(({ hash }) => hash === to);
  if (at === -1) return undefined;
  const before = commits.slice(at + 1);
  return (before.find(({ state }) => state === 'served' || state === 'head') ?? before[0])?.hash;
}

function DiffOf({ app, from, to }: { readonly app: App; readonly from: string | undefined; readonly to: string }) {
  const [fetched, again] = useGet<PolicyDiffAnswer>(app, '/policy/diff', { from, to });
  const { value } = fetched;
  if (value.kind === 'loading') return <p class="muted quiet">Loading the difference</p>;
  if (value.kind === 'failed') return <Failed what="The difference is not here." error={value.error} retry={again} />;
  return <Diff key={`${value.data.from} ${value.data.to}`} answer={value.data} />;
}

function FilesOf({ app, commit }: { readonly app: App; readonly commit: string }) {
  const [fetched, again] = useGet<PolicyFilesAnswer>(app, '/policy/files', { at: commit });
  const { value } = fetched;
  if (value.kind === 'loading') return <p class="muted quiet">Loading the files</p>;
  if (value.kind === 'failed') return <Failed what="The files are not here." error={value.error} retry={again} />;
  return <Files answer={value.data} />;
}

interface SelectProps {
  readonly label: string;
  readonly value: string;
  readonly commits: readonly PolicyCommit[];
  /** A commit of the address that the list may not have. */
  readonly also: string | undefined;
  readonly onChoose: (hash: string) => void;
}

function Select({ label, value, commits, also, onChoose }: SelectProps) {
  const isListed = commits.some(({ hash }) => hash === also);
  return (
    <select
      class="select"
      aria-label={label}
      value={value}
      onChange={({ currentTarget }) => onChoose(currentTarget.value)}
    >
      {(value === '' || (also !== undefined && !isListed)) && (
        <option value={value}>{value === '' ? 'nothing' : short(value)}</option>
      )}
      {commits.map(({ hash, title }) => (
        <option key={hash} value={hash} title={title}>
          {short(hash)}
        </option>
      ))}
    </select>
  );
}

function NoSource() {
  return (
    <Empty title="No policy source">
      <p>This server serves no policy. Give it a repository, or a bundle server, and start it again:</p>
      <pre>SYNC_POLICY_REPO_URL=https://example.com/policies.git policysync server</pre>
    </Empty>
  );
}

function NoCommit({ source: { status, branch } }: { readonly source: PolicySourceAnswer }) {
  return (
    <Empty title="No commit yet">
      {status?.error != null && <ErrorBlock place="" message={status.error} />}
      <p>
        {status?.error != null
          ? 'No look at the source has found a commit. Correct what the message names; the server goes on trying.'
          : `The server fetches ${branch === null ? 'the source' : `the branch ${branch}`} for the first time${
              status?.fetching === undefined ? '' : `: ${status.fetching}`
            }. The commits appear here by themselves.`}
      </p>
    </Empty>
  );
}
