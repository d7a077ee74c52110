import './changes.css';
import {
  byDay,
  CHANGE_FILTERS,
  type ChangeFilter,
  isChangeFilter,
  matchesChange,
} from '../../../../src/fleet-rules/change-words.js';
import { count, integer } from '../../../../src/fleet-rules/words.js';
import type { FleetChange } from '../../../../src/wire/fleet.js';
import type { PageProps } from '../../app';
import { Button } from '../../parts/button';
import { Empty, Failed, Loading } from '../../parts/empty';
import { SearchField } from '../../parts/search-field';
import { PageHead } from '../../parts/section';
import { linkTo, type Router } from '../../router';
import { type KnownChanges, useChanges } from './known-changes';
import { moveFocus } from './move-focus';
import { ChangeRow } from './row';

/** Policy commits and data updates as they happen, newest first. */
export function ChangesPage({ app, query }: PageProps) {
  const { store, router } = app;
  const known = useChanges(app);
  if (store.summary.value === undefined) return <Loading title="Changes" />;
  const given = query.get('kind');
  const filter = isChangeFilter(given) ? given : null;
  const search = query.get('q') ?? '';
  const shown = known.changes.filter((change) => matchesChange(change, filter, search));
  return (
    <>
      <PageHead title="Changes" end={<span class="muted">update log at {integer(store.head.value)}</span>}>
        <Filters filter={filter} search={search} />
        <SearchField
          label="Search changes"
          placeholder="title, topic, path, id"
          value={search}
          onInput={(text) => router.setQuery({ q: text }, 'replace')}
        />
      </PageHead>
      {known.changes.length === 0 ? (
        <NoChange />
      ) : shown.length === 0 ? (
        <NoMatch router={router} looked={known.changes.length} />
      ) : (
        <Days app={app} changes={shown} />
      )}
      {known.changes.length > 0 && <Older known={known} />}
    </>
  );
}

function Filters({ filter, search }: { readonly filter: ChangeFilter | null; readonly search: string }) {
  const names: readonly (readonly [ChangeFilter | null, string])[] = [
    [null, 'All'],
    ...(Object.entries(CHANGE_FILTERS) as [ChangeFilter, string][]),
  ];
  return (
    <nav class="filters" aria-label="Kind of changes">
      {names.map(([kind, word]) => (
        <a
          key={word}
          href={linkTo('changes', { query: { kind: kind ?? undefined, q: search } })}
          aria-current={kind === filter ? 'true' : undefined}
        >
          {word}
        </a>
      ))}
    </nav>
  );
}

function Days({ app, changes }: { readonly app: PageProps['app']; readonly changes: readonly FleetChange[] }) {
  const days = byDay(changes, app.now.peek());
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keys move the focus between the links in it
    <div onKeyDown={moveFocus}>
      {days.map(({ name, changes: list }) => (
        <section key={name} class="day">
          <h2 class="muted">{name}</h2>
          <ol>
            {list.map((change) => (
              <ChangeRow key={`${change.kind}:${change.id}`} change={change} app={app} />
            ))}
          </ol>
        </section>
      ))}
    </div>
  );
}

function Older({ known: { older, error, more, changes } }: { readonly known: KnownChanges }) {
  const say = count(changes.length, 'change');
  return (
    <div class="older">
      {error !== undefined && <Failed what="Older changes are not here." error={error} />}
      {older === 'none' && <p class="muted">{say}: these are all that the log still has.</p>}
      {older === 'full' && <p class="muted">The page keeps the newest {say}. Older ones: GET /changes.</p>}
      {(older === 'more' || older === 'asking') && (
        <Button onClick={more} off={older === 'asking' ? 'Older changes are on their way' : undefined}>
          {older === 'asking' ? 'Loading' : 'Older changes'}
        </Button>
      )}
    </div>
  );
}

function NoChange() {
  return (
    <Empty title="No change yet">
      <p>The server has no commit and no update that this session may see. To publish one:</p>
      <pre>policysync publish --dst-path /hello --data '{JSON.stringify({ world: true })}'</pre>
    </Empty>
  );
}

function NoMatch({ router, looked }: { readonly router: Router; readonly looked: number }) {
  return (
    <Empty title="No change matches">
      <p>None of the newest {count(looked, 'change')} does. Clear the search, or look at older ones.</p>
      <Button onClick={() => router.setQuery({ q: undefined, kind: undefined }, 'go')}>Clear the search</Button>
    </Empty>
  );
}
