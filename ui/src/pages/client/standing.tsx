import type { ReadonlySignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { policyStateOf } from '../../../../src/fleet-rules/rank.js';
import { age, behind, commit, duration, integer, NBSP } from '../../../../src/fleet-rules/words.js';
import type { FleetRow } from '../../../../src/wire/fleet.js';
import { DataState, HealthState, PolicyState } from '../../parts/state';

interface StandingProps {
  readonly row: ReadonlySignal<FleetRow>;
  readonly now: ReadonlySignal<number>;
  /** The commit that is served. */
  readonly served: string | null;
  /** When it last reported, as far as that is known. */
  readonly reportedAt: number | null;
}

/** The three facts: policy, data, health. They are never one. */
export function Standing({ row, now, served, reportedAt }: StandingProps) {
  const shown = row.value;
  return (
    <dl class="standing">
      <Fact name="Policy" state={<PolicyState state={policyStateOf(shown)} />}>
        <PolicyText row={shown} served={served} />
      </Fact>
      <Fact name="Data" state={<DataState state={shown.data.state} />}>
        {dataText(shown)}
      </Fact>
      <Fact name="Health" state={<HealthState state={shown.health.state} />}>
        {healthText(shown, reportedAt, now.value)}
      </Fact>
    </dl>
  );
}

interface FactProps {
  readonly name: string;
  readonly state: ComponentChildren;
  readonly children: ComponentChildren;
}

function Fact({ name, state, children }: FactProps) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <span class="big">{state}</span>
        <span class="muted">{children}</span>
      </dd>
    </div>
  );
}

function PolicyText({ row, served }: { readonly row: FleetRow; readonly served: string | null }) {
  const { state, held, behind: distance } = row.policy;
  if (state === 'does_not_say') return <>an OPAL client never says what it holds</>;
  if (state === 'none') return <>{served === null ? 'no policy is served' : 'it subscribes to no policy'}</>;
  const holds = held === null ? 'holds none yet' : <Holds hash={held} word={row.connected ? 'holds' : 'held'} />;
  if (held === served || served === null) return <>{holds}</>;
  return (
    <>
      {holds}, wanted <code>{commit(served)}</code>
      {distance !== null && `, ${behind(distance)}`}
    </>
  );
}

function Holds({ hash, word }: { readonly hash: string; readonly word: string }) {
  return (
    <>
      {word} <code>{commit(hash)}</code>
    </>
  );
}

function dataText({ data, kind }: FleetRow): string {
  if (kind === 'plain') return 'an OPAL client never says what it holds';
  if (data.state === 'none') return 'it subscribes to no data';
  if (data.at === null) return 'it has not said yet how far it is';
  const at = `at ${integer(data.at)} of ${integer(data.newest)}`;
  const isThere = data.behind === 0 && !data.at_least;
  if (data.state === 'failing' && (isThere || data.at >= data.newest)) {
    const but = isThere ? '' : ` but ${integer(data.behind)}`;
    return `all up to ${integer(data.newest)}${but}; what fails is tried again`;
  }
  if (isThere) return at;
  const waits = data.lag_seconds === null ? '' : `, the oldest waits ${duration(data.lag_seconds)}`;
  return `${at}, ${behind(data.behind, { atLeast: data.at_least })}${waits}`;
}

function healthText(row: FleetRow, reportedAt: number | null, now: number): string {
  const reported = reportedAt === null ? '' : `reported ${age(reportedAt, now)}${NBSP}ago`;
  if (row.kind === 'plain') return `connected for ${age(row.connected_at, now)}`;
  if (!row.connected) return `away for ${age(row.away_since, now)}${reported === '' ? '' : `, ${reported}`}`;
  const texts = [row.health.since === null ? '' : `for ${age(row.health.since, now)}`, reported];
  return texts.filter((text) => text !== '').join(', ') || 'it has not reported yet';
}
