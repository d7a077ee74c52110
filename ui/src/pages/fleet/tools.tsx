import { GROUP_FIELDS, groupingText } from '../../../../src/fleet-rules/group.js';
import { hasWord, swapWord } from '../../../../src/fleet-rules/search.js';
import { integer } from '../../../../src/fleet-rules/words.js';
import type { App } from '../../app';
import { Icon } from '../../parts/icon';
import { type ListModel, QUICK_FILTERS, QUICK_WORDS } from './list-model';

interface ToolsProps {
  readonly router: App['router'];
  readonly model: ListModel;
}

/** Search, filters at hand and groups; all of it stands in the address. */
export function Tools({ router, model }: ToolsProps) {
  const search = model.search.value;
  const { quick, problems, example } = model.found.value;
  const chosen = QUICK_WORDS.find((word) => hasWord(search, word)) ?? '';
  return (
    <>
      <div class="tools">
        <div class="search">
          <Icon name="search" tone="muted" />
          <input
            id="q"
            class="field"
            type="search"
            aria-label="Search clients"
            aria-describedby={problems.length > 0 ? 'search-problems' : undefined}
            aria-invalid={problems.length > 0 ? 'true' : undefined}
            placeholder={example}
            spellcheck={false}
            autocomplete="off"
            value={search}
            onInput={(event) => router.setQuery({ q: event.currentTarget.value }, 'replace')}
          />
          <kbd>/</kbd>
        </div>
        {/* biome-ignore lint/a11y/useSemanticElements: a fieldset has a frame of its own */}
        <div class="quick" role="group" aria-label="Filters">
          {QUICK_FILTERS.map(({ name, word }, index) => (
            <button
              key={name}
              type="button"
              class={quick[index] === 0 ? 'zero' : undefined}
              aria-pressed={word === chosen}
              onClick={() => router.setQuery({ q: swapWord(search, QUICK_WORDS, word) }, 'go')}
            >
              {name} <b>{integer(quick[index])}</b>
            </button>
          ))}
        </div>
        <div class="end">
          <Shown model={model} />
          <Groups router={router} model={model} />
        </div>
      </div>
      {problems.length > 0 && (
        <div class="problems" id="search-problems" role="status">
          <Icon name="warning" tone="amber" />
          <p>{problems.join(' ')}</p>
        </div>
      )}
    </>
  );
}

/** How many of all, and whether the order waits. */
function Shown({ model }: { readonly model: ListModel }) {
  const { matching, total } = model.found.value;
  const texts = [
    model.waits.value ? 'new order when you leave the list' : '',
    matching === total ? '' : `${integer(matching)} of ${integer(total)}`,
  ].filter((text) => text !== '');
  return texts.length === 0 ? null : <span class="shown muted">{texts.join(' · ')}</span>;
}

function Groups({ router, model }: ToolsProps) {
  const grouping = model.grouping.value;
  const chosen = grouping === null ? '' : groupingText(grouping);
  const labels = model.found.value.labels.map((name) => groupingText({ kind: 'label', name }));
  const choices = [...labels, ...GROUP_FIELDS];
  // A label of a link that nobody has any more.
  if (chosen !== '' && !choices.includes(chosen)) choices.push(chosen);
  return (
    <select
      class="select"
      aria-label="Groups"
      value={chosen}
      onChange={(event) => router.setQuery({ group: event.currentTarget.value }, 'go')}
    >
      <option value="">No groups</option>
      {choices.map((choice) => (
        <option key={choice} value={choice}>
          By {choice.replace(/^label:/, '')}
        </option>
      ))}
    </select>
  );
}
