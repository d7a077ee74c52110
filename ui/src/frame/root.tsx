import { type ReadonlySignal, useSignalEffect } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { ApiError } from '../api';
import type { App } from '../app';
import { SignInPage } from '../pages/sign-in/index';
import { Failed, Loading } from '../parts/empty';
import { Frame, type FrameProps } from './frame';

interface RootProps extends FrameProps {
  readonly said: ReadonlySignal<string>;
  /** The title of the tab. */
  readonly title: ReadonlySignal<string>;
}

/**
 * All of the page: who is signed in sees the frame with the fleet in it, everyone else what keeps
 * them out.
 */
export function Root({ said, title, ...frame }: RootProps) {
  useSignalEffect(() => {
    document.title = title.value;
  });
  return (
    <>
      <Inside {...frame} />
      <div class="sr" role="status" aria-live="polite">
        {said.value}
      </div>
    </>
  );
}

function Inside(frame: FrameProps) {
  const { app } = frame;
  const { value } = app.session.state;
  switch (value.kind) {
    case 'in':
      return <Frame {...frame} />;
    case 'out':
      return <SignInPage app={app} why={value.why} />;
    case 'asking':
      return (
        <main class="page" id="main">
          <Loading title="Asking the server" rows={3} />
        </main>
      );
    case 'unknown':
      return <NoServer app={app} error={value.error} />;
  }
}

/** Waits between questions to a server that does not answer. */
const AGAIN_MS = 3_000;

function NoServer({ app, error }: { readonly app: App; readonly error: ApiError }) {
  const ask = (): void => void app.session.ask();
  useEffect(() => {
    const timer = setInterval(ask, AGAIN_MS);
    return () => clearInterval(timer);
  });
  return (
    <main class="page" id="main">
      <h1 class="sr">PolicySync</h1>
      <Failed what="Nothing is known of the fleet." error={error} retry={ask} />
    </main>
  );
}
