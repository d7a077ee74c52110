import { useSignal } from '@preact/signals';
import type { DataDocument } from '../../../../src/wire/fleet-views.js';
import type { App } from '../../app';
import { Button } from '../../parts/button';
import { Failed } from '../../parts/empty';
import { Section } from '../../parts/section';
import { mayAct } from '../../session';
import { parseExact } from './exact-json';
import { type LogAnswer, shownValue } from './shown-value';

type Shown =
  | { readonly kind: 'hidden' }
  | { readonly kind: 'asking' }
  | { readonly kind: 'failed'; readonly error: unknown }
  | { readonly kind: 'shown'; readonly text: string; readonly isCut: boolean }
  | { readonly kind: 'gone' };

/**
 * The value of a document: hidden until it is asked for, by someone who may read it. The server
 * records that.
 */
export function Value({ app, document }: { readonly app: App; readonly document: DataDocument }) {
  const state = useSignal<Shown>({ kind: 'hidden' });
  const { path, seq, source, origin, method, patches } = document;

  async function show(): Promise<void> {
    state.value = { kind: 'asking' };
    try {
      const query = { path, before: seq + 1, limit: 1, include: 'secrets' };
      const answer = parseExact(await app.api.getText('/data/log', query)) as LogAnswer;
      state.value = shownValue(answer, { path, seq });
    } catch (error) {
      state.value = { kind: 'failed', error };
    }
  }
  return (
    <Section title={method === 'PATCH' ? 'Patch' : 'Value'}>
      <div class="value">{content(state.value)}</div>
    </Section>
  );

  function content(shown: Shown) {
    if (source !== 'inline')
      return (
        <p class="hidden-value">
          <span>
            The server has no value: each client fetches it from <code>{source}</code>.
          </span>
        </p>
      );
    if (origin === 'base')
      return (
        <p class="hidden-value">
          <span>The value stands in the data configuration of the server, and not in the log.</span>
        </p>
      );
    switch (shown.kind) {
      case 'hidden':
      case 'asking':
        return (
          <div class="hidden-value">
            <span>Hidden. Showing it is recorded.</span>
            <Button onClick={() => void show()} off={offReason(shown)}>
              Show
            </Button>
          </div>
        );
      case 'failed':
        return <Failed what="The value is not here." error={shown.error} retry={() => void show()} />;
      case 'gone':
        return (
          <p class="hidden-value">
            <span>
              The log does not have the update any more, or a later one has replaced it: look again in a moment.
            </span>
          </p>
        );
      case 'shown':
        return (
          <>
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: long values scroll, also with the keyboard */}
            <pre class="value-text" tabIndex={0}>
              {shown.text}
            </pre>
            {patches > 0 && <p class="muted quiet">This is the document before the patches on top of it.</p>}
            {shown.isCut && <p class="muted quiet">The rest is left out: the value is too long for the page.</p>}
            <Button onClick={() => (state.value = { kind: 'hidden' })}>Hide</Button>
          </>
        );
    }
  }

  function offReason(shown: Shown): string | undefined {
    if (shown.kind === 'asking') return 'The value is on its way';
    return mayAct(app.session.state.value) ? undefined : 'Needs a token of the kind datasource';
  }
}
