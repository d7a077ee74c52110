import './styles/index.css';
import { computed, effect, signal, untracked } from '@preact/signals';
import { render } from 'preact';
import { announcement, answerOf } from '../../src/fleet-rules/answer.js';
import type { FleetSummary } from '../../src/wire/fleet.js';
import { createApi } from './api';
import type { App } from './app';
import { createKeys } from './frame/keys';
import { Root } from './frame/root';
import { createTheme } from './frame/theme';
import { tabTitle } from './frame/title';
import { createNow } from './now';
import { createRouter } from './router';
import { createSession } from './session';
import { createServerClock } from './stream/clock';
import { createConnection } from './stream/connection';
import { createPace } from './stream/pace';
import { createStore, NOTHING_HEARD } from './stream/store';

/** Draws at most this often, in milliseconds. */
const DRAW_EVERY_MS = 250;

/** The composition root of the page: makes each part once, and says which one feeds which. */
function main(win: Window, root: Element): void {
  const api = createApi(win.fetch.bind(win), () => session.ended());
  const session = createSession(api);
  const router = createRouter(win);
  const theme = createTheme(win);
  const said = signal('');
  const clock = createServerClock(() => Date.now());
  const now = createNow(win, () => clock.now());

  const store = createStore();
  const askForDraw = createPace(
    () => store.draw(),
    {
      isHidden: () => win.document.hidden,
      onSeen: (callback) => win.document.addEventListener('visibilitychange', callback),
      now: () => performance.now(),
      setTimer: (callback, ms) => win.setTimeout(callback, ms),
    },
    DRAW_EVERY_MS,
  );
  const connection = createConnection({
    open: () => new EventSource('/ui/events'),
    onSnapshot(snapshot) {
      clock.reset();
      clock.hear(snapshot.at);
      store.take({ snapshot });
      askForDraw();
    },
    onDelta(delta) {
      clock.hear(delta.at);
      store.take({ delta });
      askForDraw();
    },
    onExpired: () => session.ended(),
    async isSignedIn() {
      await session.ask();
      return session.state.value.kind === 'in';
    },
    async answers() {
      // That it does not answer is the answer.
      return await api.get('/ui/session').then(
        () => true,
        () => false,
      );
    },
    now: () => Date.now(),
    setTimer: (callback, ms) => win.setTimeout(callback, ms),
    clearTimer: (timer) => win.clearTimeout(timer as number | undefined),
  });

  const { state: stream } = connection;
  const answer = computed(() => {
    const now = store.at.value;
    const pastAt = stream.value.kind === 'live' ? null : now;
    return answerOf({ summary: store.summary.value, source: store.source.value, pastAt, now });
  });
  const areKeysShown = signal(false);
  const keys = createKeys(win, {
    router,
    flipTheme: theme.flip,
    showKeys: () => {
      areKeysShown.value = session.state.value.kind === 'in';
    },
  });
  const app: App = {
    ...{ store, stream, answer, api, router, session, now },
    areKeysOn: keys.areOn,
    time: () => clock.now(),
    reconnect: () => connection.retry(),
    say: (text) => {
      said.value = text;
    },
  };
  const title = computed(() => {
    const environment = session.environment.value;
    return session.state.value.kind === 'in'
      ? tabTitle(store.heard.value, {
          page: router.route.value.page,
          isLost: stream.value.kind === 'lost',
          environment,
        })
      : tabTitle(NOTHING_HEARD, { page: 'sign-in', isLost: false, environment });
  });

  // As text: the same session, asked for once more, does not start the stream anew.
  const present = computed(() =>
    session.state.value.kind === 'in' ? JSON.stringify(session.state.value.session) : '',
  );
  effect(() => {
    const isIn = present.value !== '';
    untracked(() => {
      if (isIn) connection.start();
      else {
        connection.stop();
        store.clear();
      }
    });
  });
  let before: FleetSummary | undefined;
  effect(() => {
    const summary = store.summary.value;
    const text = summary && announcement(before, summary, { source: store.source.peek(), now: store.at.peek() });
    before = summary;
    if (text !== undefined) untracked(() => app.say(text));
  });
  render(<Root app={app} theme={theme} keys={keys} areKeysShown={areKeysShown} said={said} title={title} />, root);
  void session.ask();
}

const root = document.getElementById('app');
if (root !== null) main(window, root);
