import type { App } from '../app';
import { Brand } from '../parts/brand';
import { Button } from '../parts/button';
import { Icon, type IconName } from '../parts/icon';
import { linkTo, type PageName } from '../router';
import type { StreamState } from '../stream/connection';
import type { ThemeChoice } from './theme';

const NAV: readonly { page: PageName; word: string; icon: IconName; also?: PageName }[] = [
  { page: 'fleet', word: 'Fleet', icon: 'fleet', also: 'client' },
  { page: 'changes', word: 'Changes', icon: 'changes', also: 'change' },
  { page: 'data', word: 'Data', icon: 'data' },
  { page: 'policy', word: 'Policy', icon: 'policy' },
  { page: 'instances', word: 'Instances', icon: 'instances' },
];

interface HeaderProps {
  readonly app: App;
  readonly theme: ThemeChoice;
  readonly showKeys: () => void;
}

/** The top line: where one is, how the stream stands, who looks. */
export function Header({ app, theme, showKeys }: HeaderProps) {
  return (
    <header class="top">
      <a class="brand" href={linkTo('fleet')}>
        <Brand app={app} />
      </a>
      <Navigation page={app.router.route.value.page} />
      <div class="end">
        <Live stream={app.stream.value} />
        <Button kind="quiet" label="Light or dark" title="Light or dark (t)" onClick={theme.flip}>
          <Icon name="theme" />
        </Button>
        <Button kind="quiet" label="Keys" title="Keys (?)" onClick={showKeys}>
          ?
        </Button>
        <Person app={app} />
      </div>
    </header>
  );
}

function Navigation({ page }: { readonly page: PageName | undefined }) {
  return (
    <nav class="nav" aria-label="Pages">
      {NAV.map((entry) => (
        <a
          key={entry.page}
          href={linkTo(entry.page)}
          aria-current={page !== undefined && (entry.page === page || entry.also === page) ? 'page' : undefined}
        >
          <Icon name={entry.icon} />
          {entry.word}
        </a>
      ))}
    </nav>
  );
}

const LIVE_WORDS: Readonly<Record<StreamState['kind'], { word: string; title: string }>> = {
  stopped: { word: 'Stopped', title: 'Nobody is signed in' },
  connecting: { word: 'Connecting', title: 'The stream is being opened' },
  live: { word: 'Live', title: 'The stream stands: what you see is how it is' },
  lost: { word: 'Reconnecting', title: 'The stream is cut: what you see is how it was' },
};

function Live({ stream }: { readonly stream: StreamState }) {
  const { word, title } = LIVE_WORDS[stream.kind];
  const isLost = stream.kind === 'lost';
  return (
    <span class={`stream ${stream.kind}`} title={title}>
      <Icon name={isLost ? 'warning' : 'dot'} />
      <span class="word">{word}</span>
    </span>
  );
}

function Person({ app }: { readonly app: App }) {
  const { value } = app.session.state;
  if (value.kind !== 'in' || !value.session.authentication) return null;
  const { role, subject } = value.session;
  return (
    <Button
      kind="quiet"
      title={`Signed in as ${subject ?? 'someone without a name'}, with a ${role ?? 'limited'} token. Sign out`}
      onClick={() => {
        app.session.signOut().catch((error: unknown) => app.say(`You are still signed in. ${String(error)}`));
      }}
    >
      <Icon name="person" />
      <span class="word">{role}</span>
      <span class="sr">, sign out</span>
    </Button>
  );
}
