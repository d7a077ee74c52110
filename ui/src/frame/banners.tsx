import { isFailing } from '../../../src/fleet-rules/answer.js';
import { errorPlace } from '../../../src/fleet-rules/change-words.js';
import { age, clock, commit, count, duration, moment } from '../../../src/fleet-rules/words.js';
import type { SourceView } from '../../../src/wire/clients.js';
import type { UiSession } from '../../../src/wire/fleet.js';
import type { App } from '../app';
import { Banner } from '../parts/banner';
import { Button } from '../parts/button';
import { linkTo, type PageName } from '../router';
import type { StreamState } from '../stream/connection';

/**
 * What is to be known before anything on the page is believed: what, since when, what next. The
 * worst stands first.
 */
export function Banners({ app }: { readonly app: App }) {
  return (
    <>
      <StreamBanner app={app} />
      <SessionBanner app={app} />
      <LogBanner app={app} />
      <SourceBanner app={app} />
      <IncompleteBanner app={app} />
      <LimitedBanner app={app} />
      <VersionBanner app={app} />
    </>
  );
}

const LOST: Readonly<Record<(StreamState & { kind: 'lost' })['why'], string>> = {
  cut: 'The stream is cut.',
  silent: 'The server says nothing any more.',
  held: 'Something between you and the server holds the stream back.',
  unreadable: 'The server says what this page cannot read.',
};

function StreamBanner({ app }: { readonly app: App }) {
  const { value } = app.stream;
  if (value.kind !== 'lost') return null;
  const action =
    value.why === 'unreadable' ? (
      <Button onClick={() => location.reload()}>Reload</Button>
    ) : (
      <Button onClick={app.reconnect}>Try now</Button>
    );
  const at = app.store.at.value;
  return (
    <Banner
      kind="bad"
      what={LOST[value.why]}
      action={action}
      running={
        <>
          {at > 0 && `What you see is of ${clock(at)}, ${age(at, app.now.value)} ago. `}
          {REMEDIES[value.why] === undefined && nextTry(value.nextTryAt)}
        </>
      }
    >
      {REMEDIES[value.why]}
    </Banner>
  );
}

/** Where trying again is not all there is to do. */
const REMEDIES: Readonly<Partial<typeof LOST>> = {
  held: 'Turn off its buffering for /ui/events.',
  unreadable: 'It may be another version.',
};

function nextTry(at: number | null): string {
  if (at === null) return 'The browser tries again by itself.';
  const seconds = Math.ceil((at - Date.now()) / 1000);
  return seconds > 0 ? `Next try in ${seconds} s.` : 'Trying again.';
}

/** Before a session ends by itself, there is time to get a new token. */
const SOON_MS = 5 * 60_000;

function SessionBanner({ app }: { readonly app: App }) {
  const session = sessionOf(app);
  if (session === undefined || session.ends_at === null) return null;
  const leftMs = session.ends_at - app.now.value;
  if (leftMs > SOON_MS || leftMs <= 0) return null;
  return (
    <Banner
      kind="warn"
      what="Your session ends soon."
      running={`It ends in ${duration(leftMs / 1000)}.`}
      action={<SignInAgain app={app} />}
    >
      Sign in with a token that ends later.
    </Banner>
  );
}

function SignInAgain({ app }: { readonly app: App }) {
  return (
    <Button
      onClick={() => {
        app.session.signOut().catch((error: unknown) => app.say(`You are still signed in. ${String(error)}`));
      }}
    >
      Sign in again
    </Button>
  );
}

/** Leads to the page that has the rest; nothing where one is there already. */
function LinkOf({ app, page, word }: { readonly app: App; readonly page: PageName; readonly word: string }) {
  if (app.router.route.value.page === page) return null;
  return (
    <a class="btn" href={linkTo(page)}>
      {word}
    </a>
  );
}

function LogBanner({ app }: { readonly app: App }) {
  const full = app.store.instances.value.filter(({ state }) => state === 'refuses_updates');
  if (full.length === 0) return null;
  return (
    <Banner kind="bad" what="Updates are refused." action={<LinkOf app={app} page="instances" word="Instances" />}>
      {list(full.map(({ name }) => name))} cannot write the update log: publishes get 507. Clients keep what they hold.
      GET /healthcheck has the reason; make room on the disk.
    </Banner>
  );
}

function SourceBanner({ app }: { readonly app: App }) {
  const source = app.store.source.value;
  if (source === null) return null;
  const served = source.head ? (
    <>
      Clients keep <code>{commit(source.head)}</code>.
    </>
  ) : (
    'No policy is served.'
  );
  const action = <LinkOf app={app} page="policy" word="Policy" />;
  if (source.refused !== undefined) {
    return (
      <Banner kind="bad" what="The server refused the newest commit." action={action}>
        <a href={linkTo('change', { id: source.refused })}>
          <code>{commit(source.refused)}</code>
        </a>{' '}
        is not served: {sentence(source.error)}
        {alsoWrong(source.problems)} {served} Repair it with another commit.
      </Banner>
    );
  }
  if (isFailing(source)) {
    const since = source.failing_since === undefined ? null : Date.parse(source.failing_since);
    return (
      <Banner kind="bad" what="The policy source fails." action={action}>
        {since !== null && `Since ${moment(since, app.now.value)}: `}
        {sentence(source.error)} {served} The server goes on trying.
      </Banner>
    );
  }
  if (source.doubted !== undefined) {
    return (
      <Banner kind="warn" what="The policy source may show an older commit." action={action}>
        It shows <code>{commit(source.doubted)}</code>, which the server does not serve before it is sure. {served}
      </Banner>
    );
  }
  if (source.awaited !== undefined) {
    return (
      <Banner kind="warn" what="A pushed commit has not come." action={action}>
        A webhook named <code>{commit(source.awaited.commit)}</code> at{' '}
        {moment(Date.parse(source.awaited.since), app.now.value)}, and the policy source does not show it.{' '}
        {source.awaited.given_up === undefined
          ? 'The server asks again.'
          : 'If no later push replaced it, send the webhook again.'}{' '}
        {served}
      </Banner>
    );
  }
  if (source.fetching_since !== undefined && source.head) {
    return (
      <Banner kind="warn" what="The policy source takes long to answer." action={action}>
        No answer since {moment(Date.parse(source.fetching_since), app.now.value)}: there may be a newer commit.{' '}
        {served}
      </Banner>
    );
  }
  return null;
}

/** What is wrong beside the first problem, which the error of the source has. */
function alsoWrong([, ...others]: NonNullable<SourceView['problems']> = []): string {
  if (others.length === 0) return '';
  const texts = others.map((problem) => `${errorPlace(problem)} ${problem.message}`.trim());
  return ` ${sentence(`Also ${texts.join('; ')}`)}`;
}

function IncompleteBanner({ app }: { readonly app: App }) {
  const why = app.store.summary.value?.incomplete;
  if (!why) return null;
  return (
    <Banner
      kind="warn"
      what="There may be more clients than these."
      action={<LinkOf app={app} page="instances" word="Instances" />}
    >
      {sentence(why)}
    </Banner>
  );
}

function LimitedBanner({ app }: { readonly app: App }) {
  const summary = app.store.summary.value;
  if (!summary?.limited) return null;
  return (
    <Banner kind="warn" what="You see a part.">
      {limitText(sessionOf(app))}: {count(summary.total, 'client')}, and of each only what is theirs.
    </Banner>
  );
}

/** "Your token permits the topics billing and limits". */
function limitText(session: UiSession | undefined): string {
  const topics = session?.topics ?? [];
  const paths = session?.paths ?? [];
  const parts = [
    ...(topics.length > 0 ? [`the topics ${list(topics)}`] : []),
    ...(paths.length > 0 ? [`the paths ${list(paths)}`] : []),
  ];
  return parts.length === 0 ? 'Your token is limited' : `Your token permits ${parts.join(' and ')}`;
}

const LISTED = 4;

function list(names: readonly string[]): string {
  const shown = names.slice(0, LISTED);
  const more = names.length - shown.length;
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ');
}

function VersionBanner({ app }: { readonly app: App }) {
  const { version: loaded } = app.session;
  const runs = app.store.instances.value.find(({ here }) => here)?.version;
  if (loaded === undefined || !runs || runs === loaded) return null;
  return (
    <Banner
      kind="warn"
      what="The server has another version by now."
      action={<Button onClick={() => location.reload()}>Reload</Button>}
    >
      This page is of {loaded}, the server of {runs}.
    </Banner>
  );
}

function sessionOf(app: App): UiSession | undefined {
  const { value } = app.session.state;
  return value.kind === 'in' ? value.session : undefined;
}

/** A message of the server as a sentence of its own. */
function sentence(text: string | null | undefined): string {
  if (text === null || text === undefined || text === '') return 'The log of the server has the reason.';
  const trimmed = text.trim();
  return /[.!?]$/.test(trimmed) ? trimmed : `${trimmed}.`;
}
