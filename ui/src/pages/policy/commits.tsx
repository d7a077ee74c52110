import { errorLine } from '../../../../src/fleet-rules/change-words.js';
import { type CommitLook, commitLook } from '../../../../src/fleet-rules/state-words.js';
import { commit as short } from '../../../../src/fleet-rules/words.js';
import type { PolicyCommit } from '../../../../src/wire/fleet-views.js';
import type { App } from '../../app';
import { Icon, type IconName } from '../../parts/icon';
import { Age } from '../../parts/time';
import { linkTo } from '../../router';

interface CommitsProps {
  readonly app: App;
  readonly commits: readonly PolicyCommit[];
  /** The hash of the commit that is looked at. */
  readonly chosen: string | undefined;
  readonly tab: string;
}

/** The commits of the branch, newest first. Each leads to what it changed. */
export function Commits({ app, commits, chosen, tab }: CommitsProps) {
  const underWay = app.store.summary.value?.under_way;
  const counts = new Map(app.store.changes.value.map((change) => [change.id, change.counts]));
  return (
    <nav class="commits" aria-label="Commits">
      <ol>
        {commits.map((one) => {
          const isMoving = underWay?.kind === 'policy' && underWay.id === one.hash && underWay.state === 'under_way';
          const { kind, word } = commitLook({ state: one.state, isMoving, counts: counts.get(one.hash) });
          const [icon, shade] = LOOKS[kind];
          const tone = kind === 'held' && one.state !== 'head' ? 'muted' : shade;
          return (
            <li key={one.hash}>
              <a
                href={linkTo('policy', { query: { tab: tab === 'files' ? tab : undefined, to: one.hash } })}
                aria-current={one.hash === chosen ? 'true' : undefined}
                title={one.error === null ? undefined : errorLine(one.error)}
              >
                <Icon name={icon} tone={tone} />
                <span class="clip" title={one.title}>
                  {one.title === '' ? 'No message' : one.title}
                </span>
                <span class="muted num">
                  <Age at={one.at} now={app.now} />
                </span>
                <span
                  class="clip muted about"
                  title={`${short(one.hash)} ${one.author}${word === '' ? '' : ` · ${word}`}`}
                >
                  <code>{short(one.hash)}</code> {one.author}
                  {word !== '' && <span class={tone === 'red' ? 'red' : undefined}> · {word}</span>}
                </span>
              </a>
            </li>
          );
        })}
      </ol>
    </nav>
  );
}

const LOOKS: Readonly<Record<CommitLook['kind'], readonly [icon: IconName, tone: string]>> = {
  held: ['acknowledged', 'accent'],
  under_way: ['told', 'accent'],
  refused: ['refused', 'red'],
  open: ['none', 'muted'],
};
