import './hero.css';
import { commit, integer } from '../../../../src/fleet-rules/words.js';
import type { FleetSummary } from '../../../../src/wire/fleet.js';
import type { App } from '../../app';
import { AnswerText } from '../../parts/answer';
import { Bar, barCounts } from '../../parts/bar';
import { Legend } from '../../parts/legend';
import { barLabel, dataLegend, policyLegend } from './hero-legend';
import { UnderWay } from './under-way';

/**
 * The answer in one sentence, as bars, and the change that is under way. Draws nothing before the
 * first snapshot.
 */
export function Hero({ app }: { readonly app: App }) {
  const summary = app.store.summary.value;
  if (summary === undefined) return null;
  return (
    <section class="hero" aria-label="Answer">
      <h1 class="answer" tabIndex={-1}>
        <AnswerText answer={app.answer.value} />
      </h1>
      <div class="bars">
        <PolicyBar app={app} policy={summary.policy} />
        <DataBar app={app} data={summary.data} />
      </div>
      {summary.under_way !== null && <UnderWay app={app} change={summary.under_way} others={summary.others_held_up} />}
    </section>
  );
}

function PolicyBar({ app, policy }: { readonly app: App; readonly policy: FleetSummary['policy'] }) {
  const items = policyLegend(policy.counts, app.router.route.value);
  return (
    <div class="answer-bar">
      <div class="name">
        <h2>Policy</h2>
        <code class="muted">{commit(policy.head)}</code>
      </div>
      <Bar counts={barCounts(policy.counts)} label={barLabel('Policy', items)} />
      <Legend label="Clients by policy" items={items} />
    </div>
  );
}

function DataBar({ app, data }: { readonly app: App; readonly data: FleetSummary['data'] }) {
  const items = dataLegend(data.counts, app.router.route.value);
  return (
    <div class="answer-bar">
      <div class="name">
        <h2>Data</h2>
        <code class="muted">{integer(data.head)}</code>
      </div>
      <Bar counts={barCounts(data.counts)} label={barLabel('Data', items)} />
      <Legend label="Clients by data" items={items} />
    </div>
  );
}
