import { fleetAnswerText } from '../../../src/fleet-rules/answer.js';
import type { App } from '../app';
import { AnswerText } from '../parts/answer';
import { Bar, barCounts } from '../parts/bar';
import { linkTo } from '../router';

/** The answer on every page that is not about it: it leads to the fleet. */
export function Strip({ app }: { readonly app: App }) {
  const summary = app.store.summary.value;
  const answer = app.answer.value;
  return (
    <a class="strip" href={linkTo('fleet')} title={fleetAnswerText(answer)}>
      {summary !== undefined && summary.total > 0 && (
        <Bar thin counts={barCounts(summary.policy.counts)} label="Clients that hold the policy" />
      )}
      <span class="clip">
        <AnswerText answer={answer} />
      </span>
    </a>
  );
}
