import type { ReadonlySignal } from '@preact/signals';
import { own } from '../../../../src/fleet-rules/names-of-others.js';
import { fieldWord } from '../../../../src/fleet-rules/search.js';
import { commit, count, integer } from '../../../../src/fleet-rules/words.js';
import type { ClientAnswer } from '../../../../src/wire/client-details.js';
import type { FleetRow } from '../../../../src/wire/fleet.js';
import type { App } from '../../app';
import { ErrorBlock } from '../../parts/error-block';
import { linkTo } from '../../router';

interface ClientErrorProps {
  readonly app: App;
  readonly row: ReadonlySignal<FleetRow>;
  readonly answer: ClientAnswer | undefined;
}

/**
 * The worst error of the client with its place and source, what its engine does meanwhile, who else
 * has it.
 */
export function ClientError({ app, row, answer }: ClientErrorProps) {
  const { error, policy } = row.value;
  if (policy.error !== null) return <PolicyError app={app} row={row.value} answer={answer} />;
  if (error === null || error.kind === 'away') return null;
  return (
    <ErrorBlock place={error.place} message={error.text}>
      {own(MEANWHILE, error.kind) ?? 'The client tries again by itself.'}
    </ErrorBlock>
  );
}

/** What goes on beside an error of data or engine, by its kind. */
const MEANWHILE: Readonly<Record<string, string>> = {
  blocked:
    'A rule or the engine stands against it: the path keeps what it has. Publish another path, or remove the rule.',
  engine: 'The client brings the engine in step as soon as it responds.',
  source: 'The path keeps what it has; the client fetches it again.',
  refused: 'The source refuses to give it: the path keeps what it has. Look at the credentials of the entry.',
  config: 'The client keeps what it holds, and reads the data configuration again by itself.',
};

function PolicyError({
  app,
  row,
  answer,
}: {
  readonly app: App;
  readonly row: FleetRow;
  readonly answer: ClientAnswer | undefined;
}) {
  const { error, held } = row.policy;
  if (error === null) return null;
  const place = error.file === null ? '' : `${error.file}${error.line === null ? '' : `:${error.line}`}`;
  const served = answer?.policy_head ?? app.store.summary.value?.policy.head ?? null;
  const others = answer?.same_error ?? 0;
  const source = answer?.source;
  return (
    <ErrorBlock
      place={place}
      message={error.message}
      source={source && { first: source.first, hit: source.line, lines: source.lines }}
    >
      {held === null ? (
        'The engine holds no policy yet: what it should decide is undefined.'
      ) : (
        <>
          The engine goes on with <code>{commit(held)}</code>.
        </>
      )}{' '}
      {enginesText(app, row)}
      {others > 1 && (
        <>
          The same error:{' '}
          <a
            href={linkTo('fleet', {
              query: { q: fieldWord('error', place === '' ? error.message.slice(0, 60) : place) },
            })}
          >
            {count(others, 'client')}
          </a>
          {' · '}
        </>
      )}
      {served !== null && <a href={linkTo('change', { id: served })}>see the change</a>}
    </ErrorBlock>
  );
}

/**
 * Whether the engines tell those apart who refuse the commit from those who hold it: then an engine
 * is too old, or too new.
 */
function enginesText(app: App, { engine, policy }: FleetRow): string {
  app.store.changed.value;
  if (engine === null) return '';
  let holding = 0;
  for (const { value } of app.store.rows.values()) {
    if (value.policy.state === 'acknowledged') {
      if (value.engine === engine) return '';
      holding += 1;
    } else if (value.policy.error?.message === policy.error?.message && value.engine !== engine) return '';
  }
  if (holding === 0) return '';
  return `Only ${engine} refuses it: ${integer(holding)} ${holding === 1 ? 'client' : 'clients'} with other engines hold it. `;
}
