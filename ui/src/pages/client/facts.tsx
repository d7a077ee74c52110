import type { ReadonlySignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { fieldWord } from '../../../../src/fleet-rules/search.js';
import { integer } from '../../../../src/fleet-rules/words.js';
import type { ClientAnswer } from '../../../../src/wire/client-details.js';
import type { App } from '../../app';
import { Facts as FactList, Section } from '../../parts/section';
import { Age } from '../../parts/time';
import { linkTo } from '../../router';

interface FactsProps {
  readonly app: App;
  readonly answer: ClientAnswer;
  /** When it last reported, as far as that is known. */
  readonly reportedAt: number | null;
}

/** Where it is and what it is made of. */
export function Facts({ app, answer, reportedAt }: FactsProps) {
  const { client, details } = answer;
  const { now, store } = app;
  const instance = store.instances.value.find((one) => one.instance === client.instance)?.name ?? client.instance;
  const facts: (readonly [string, ComponentChildren])[] = [
    ['Engine', <Engine key="engine" answer={answer} />],
    ['Instance', <Instance key="instance" id={client.instance} name={instance} />],
    ['Address', <code key="address">{client.address}</code>],
    client.connected
      ? ['Connected', <Age key="connected" at={client.connected_at} now={now} />]
      : ['Away', <Age key="away" at={client.away_since} now={now} />],
  ];
  if (reportedAt !== null) {
    facts.push([
      'Reported',
      <span key="reported">
        <Age at={reportedAt} now={now} /> ago
      </span>,
    ]);
  }
  if (client.data.held)
    facts.push(['Log epoch', <Epoch key="epoch" held={client.data.held.epoch} served={answer.epoch} />]);
  facts.push([
    'Duplicates',
    client.duplicates === 0 ? 'none' : `${integer(client.duplicates)} other instances have it`,
  ]);
  facts.push(['Kind', client.kind === 'plain' ? 'OPAL client' : 'session']);
  if (client.subject) facts.push(['Token of', client.subject]);
  if (client.own_id && client.own_id !== client.client_id)
    facts.push(['Calls itself', <code key="own">{client.own_id}</code>]);
  if (details !== null) {
    facts.push(
      ['Version', details.version],
      [
        'Started',
        <span key="started">
          <Age at={details.started_at} now={now} /> ago
        </span>,
      ],
      ['Log level', details.log_level],
    );
    if (details.rego !== null)
      facts.push(['Rego', `${details.rego.mode}: ${details.rego.v1} v1, ${details.rego.v0} v0`]);
    if (details.drift !== null) facts.push(['Drift check', <Drift key="drift" drift={details.drift} now={now} />]);
  }
  return (
    <aside class="aside" aria-label="Facts">
      <Section title="Facts">
        <FactList facts={facts} />
      </Section>
    </aside>
  );
}

function Engine({ answer }: { readonly answer: ClientAnswer }) {
  const { engine, connected } = answer.client;
  if (engine === null) return <span class="muted">not known</span>;
  const name = `${engine.kind} ${engine.version ?? ''}`.trim();
  return (
    <>
      <a href={linkTo('fleet', { query: { q: fieldWord('engine', name) } })}>{name}</a>
      {connected && engine.online && ', online'}
      {connected && !engine.online && <b class="red">, does not respond{engine.error ? `: ${engine.error}` : ''}</b>}
    </>
  );
}

function Instance({ id, name }: { readonly id: string; readonly name: string }) {
  return (
    <a href={linkTo('fleet', { query: { q: fieldWord('instance', name) } })} title={id === name ? undefined : id}>
      {name}
    </a>
  );
}

function Epoch({ held, served }: { readonly held: string; readonly served: string }) {
  return (
    <>
      <code>{held.slice(0, 8)}</code>
      {served !== '' && held !== served && <b class="amber"> another log than the one that is served</b>}
    </>
  );
}

type DriftState = NonNullable<NonNullable<ClientAnswer['details']>['drift']>;

function Drift({ drift, now }: { readonly drift: DriftState; readonly now: ReadonlySignal<number> }) {
  if (drift.error !== null) return <b class="red">{drift.error}</b>;
  if (drift.checked_at === null) return <span class="muted">not yet</span>;
  return (
    <>
      <Age at={drift.checked_at} now={now} /> ago,{' '}
      {drift.repaired === 0 ? 'no difference' : `${integer(drift.repaired)} repaired`}
    </>
  );
}
