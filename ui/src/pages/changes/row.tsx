import {
  type ChangeResult,
  changeResult,
  changeSize,
  changeTitle,
  errorPlace,
} from '../../../../src/fleet-rules/change-words.js';
import { commit, count, integer } from '../../../../src/fleet-rules/words.js';
import type { FleetChange } from '../../../../src/wire/fleet.js';
import type { App } from '../../app';
import { Spark } from '../../charts/spark';
import { Icon, type IconName } from '../../parts/icon';
import { Age } from '../../parts/time';
import { linkTo } from '../../router';

const RESULT_ICONS: Readonly<Record<ChangeResult['kind'], readonly [icon: IconName, tone: string]>> = {
  done: ['acknowledged', 'accent'],
  moving: ['told', 'accent'],
  stuck: ['refused', 'red'],
  open: ['told', 'muted'],
  none: ['none', 'muted'],
};

/** One change in the list; the whole row leads to its page. */
export function ChangeRow({ change, app }: { readonly change: FleetChange; readonly app: App }) {
  const isRefused = change.state === 'refused';
  // A change that moves draws each second, one that rests when it changes.
  const now = change.state === 'under_way' ? app.now.value : app.now.peek();
  const title = changeTitle(change);
  const result = changeResult(change, now);
  const [icon, tone] = RESULT_ICONS[result.kind];
  const topics = change.topics.join(', ');
  return (
    <li>
      <a class="change" href={linkTo('change', { id: change.id })}>
        {isRefused ? (
          <Icon name="refused" tone="red" />
        ) : (
          <Icon name={change.kind === 'policy' ? 'policy' : 'data'} tone="muted" />
        )}
        <code class="id">
          <span class="sr">{change.kind === 'policy' ? 'Commit ' : 'Update '}</span>
          {change.kind === 'policy' ? commit(change.id) : integer(Number(change.id))}
        </code>
        <span class="what">
          <span class="clip strong" title={title}>
            {title}
          </span>
          <Second change={change} />
        </span>
        <span class="topics clip mono muted" title={topics}>
          {topics}
        </span>
        <span class="curve">
          <Spark change={change} now={now} />
        </span>
        <span class="result">
          <span class="st">
            <Icon name={icon} tone={tone} />
            <span class="clip">
              {result.of === '' ? result.main : <b>{result.main}</b>}
              <span class="muted">{result.of}</span>
            </span>
          </span>
          <span class="clip muted" title={result.more}>
            {result.more}
          </span>
        </span>
        <span class="when muted num">
          <Age at={change.at} now={app.now} />
        </span>
      </a>
    </li>
  );
}

function Second({ change }: { readonly change: FleetChange }) {
  const { error, by } = change;
  if (error !== null) {
    const place = errorPlace(error);
    const clients = error.clients === undefined ? '' : ` · ${count(error.clients, 'client')}`;
    return (
      <span class="clip" title={`${place} ${error.message}${clients}`.trim()}>
        {place !== '' && <code class="red">{place} </code>}
        {error.message}
        <span class="muted">{clients}</span>
      </span>
    );
  }
  const facts = [by ?? '', changeSize(change)].filter((text) => text !== '').join(' \u00b7 ');
  return (
    <span class="clip muted" title={facts}>
      {facts}
    </span>
  );
}
