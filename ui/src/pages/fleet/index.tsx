import './fleet.css';
import { useEffect, useMemo } from 'preact/hooks';
import { fleetAnswerText } from '../../../../src/fleet-rules/answer.js';
import type { App, PageProps } from '../../app';
import { Button } from '../../parts/button';
import { Empty, Loading } from '../../parts/empty';
import { Hero } from './hero';
import { FleetList } from './list';
import { createListModel, type ListModel } from './list-model';
import { Tools } from './tools';

/** The answer, and below it each client: who needs a look stands first. */
export function FleetPage({ app }: PageProps) {
  const summary = app.store.summary.value;
  if (summary === undefined) return <Loading title={fleetAnswerText(app.answer.value)} />;
  if (summary.total === 0) return <NoClients app={app} />;
  return <Fleet app={app} />;
}

function Fleet({ app }: { readonly app: App }) {
  const model = useMemo(() => createListModel(app), [app]);
  useEffect(() => () => model.dispose(), [model]);
  return (
    <div class="fleet">
      <Hero app={app} />
      <Tools router={app.router} model={model} />
      <FleetList app={app} model={model} />
      <NoMatch app={app} model={model} />
    </div>
  );
}

function NoMatch({ app, model }: { readonly app: App; readonly model: ListModel }) {
  const { matching } = model.found.value;
  if (matching > 0 || model.items.value.length > 0) return null;
  return (
    <div class="no-match" role="status">
      <p>
        No client matches <code>{model.search.value}</code>.
      </p>
      <Button
        onClick={() => {
          app.router.setQuery({ q: undefined }, 'go');
          document.getElementById('q')?.focus();
        }}
      >
        Clear the search
      </Button>
    </div>
  );
}

function NoClients({ app }: { readonly app: App }) {
  const session = app.session.state.value;
  const hasTokens = session.kind === 'in' && session.session.authentication;
  if (app.store.summary.value?.limited === true) {
    return (
      <Empty title="No client yet">
        <p>
          No client subscribes to a topic that your token permits. One that does appears here as soon as it connects.
        </p>
      </Empty>
    );
  }
  return (
    <Empty title="No client yet">
      <p>Start one on a machine that reaches this server; it appears here as soon as it connects:</p>
      <pre>
        SYNC_SERVER_URL={location.origin} {hasTokens && 'SYNC_CLIENT_TOKEN=... '}policysync client
      </pre>
      {hasTokens && (
        <p>
          <code>policysync token --type client</code>, with the master token of the server, prints one for it.
        </p>
      )}
    </Empty>
  );
}
