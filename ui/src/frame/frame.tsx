import './frame.css';
import { type Signal, useSignalEffect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { App } from '../app';
import { PAGES } from '../pages/table';
import { Empty, focusTitle } from '../parts/empty';
import { linkTo } from '../router';
import { Banners } from './banners';
import { Header } from './header';
import type { Keys } from './keys';
import { KeysDialog } from './keys-dialog';
import { Strip } from './strip';
import type { ThemeChoice } from './theme';

/** What the frame has beside what every page gets. */
export interface FrameProps {
  readonly app: App;
  readonly theme: ThemeChoice;
  readonly keys: Keys;
  readonly areKeysShown: Signal<boolean>;
}

/** What stands around every page. */
export function Frame({ app, theme, keys, areKeysShown }: FrameProps) {
  const isLost = app.stream.value.kind === 'lost';
  const { page } = app.router.route.value;
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById('main')?.focus()}>
        Skip to content
      </button>
      <Header app={app} theme={theme} showKeys={() => (areKeysShown.value = true)} />
      <main class={isLost ? 'page stale' : 'page'} id="main" tabIndex={-1}>
        {page !== 'fleet' && <Strip app={app} />}
        <Banners app={app} />
        <Page app={app} />
      </main>
      {areKeysShown.value && <KeysDialog keys={keys} onClose={() => (areKeysShown.value = false)} />}
    </>
  );
}

function Page({ app }: { readonly app: App }) {
  const { page, id, query, href } = app.router.route.value;
  const place = `${page ?? href} ${id ?? ''}`;
  const openPlace = useRef(place);
  useEffect(() => {
    if (openPlace.current !== place) showTop();
    openPlace.current = place;
  }, [place]);
  useSignalEffect(() => {
    if (app.router.route.value.page === 'sign-in') app.router.replace(linkTo('fleet'));
  });
  if (page === undefined || page === 'sign-in') return <UnknownPage href={href} />;
  const Found = PAGES[page];
  return <Found key={place} app={app} id={id} query={query} />;
}

/**
 * Another page begins at its top, and its title is what those hear first who listen, unless they
 * were quicker and are in it already.
 */
function showTop(): void {
  scrollTo(0, 0);
  if (document.querySelector('#main :focus') === null) focusTitle();
}

function UnknownPage({ href }: { readonly href: string }) {
  return (
    <Empty title="No such page">
      <p>
        Nothing has the address <code>{href}</code>. The link may be cut.
      </p>
      <a class="btn" href={linkTo('fleet')}>
        Fleet
      </a>
    </Empty>
  );
}
