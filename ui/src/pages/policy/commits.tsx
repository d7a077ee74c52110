import { integer, commit as short } from '../../../../src/fleet/words.js';
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
  const policy = app.store.summary.value?.policy;
  return (
    <nav class="commits" aria-label="Commits">
      <ol>
        {commits.map((one) => {
          const isMoving = underWay?.kind === 'policy' && underWay.id === one.hash && underWay.state === 'under_way';
          const refusing = one.hash === policy?.head ? (policy.counts.refused ?? 0) : 0;
          const [icon, tone, word] = looks(one.state, isMoving, refusing);
          return (
            <li key={one.hash}>
              <a
                href={linkTo('policy', { query: { tab: tab === 'files' ? tab : undefined, to: one.hash } })}
                aria-current={one.hash === chosen ? 'true' : undefined}
                title={one.error?.message}
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

/** Shape, colour and word of the state of a commit. */
function looks(
  state: string,
  isMoving: boolean,
  refusing: number,
): readonly [icon: IconName, tone: string, word: string] {
  if (refusing > 0) return ['refused', 'red', `${integer(refusing)} refuse it`];
  if (isMoving) return ['told', 'accent', 'under way'];
  switch (state) {
    case 'head':
      return ['acknowledged', 'accent', 'served'];
    case 'served':
      return ['acknowledged', 'muted', ''];
    case 'refused':
      return ['refused', 'red', 'not served'];
    case 'replaced':
      return ['none', 'muted', 'never served'];
    default:
      return ['none', 'muted', state.replaceAll('_', ' ')];
  }
}
