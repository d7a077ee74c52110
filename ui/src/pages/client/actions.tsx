import { type ReadonlySignal, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { count } from '../../../../src/fleet-rules/words.js';
import type { ActionBody, ClientAction } from '../../../../src/wire/client-actions.js';
import type { ActionAnswer, ClientAnswer } from '../../../../src/wire/client-details.js';
import type { FleetRow } from '../../../../src/wire/fleet.js';
import { ApiError } from '../../api';
import type { App } from '../../app';
import { Button } from '../../parts/button';
import { Confirm } from '../../parts/dialog';
import { mayAct } from '../../session';

interface ActionsProps {
  readonly app: App;
  readonly row: ReadonlySignal<FleetRow>;
  readonly answer: ClientAnswer | undefined;
  readonly isGone: boolean;
  /** The client did what it was asked for. */
  readonly onDone: () => void;
}

type Level = NonNullable<ActionBody['level']>;
const LEVELS: readonly Level[] = ['debug', 'info', 'warn', 'error'];

/** What became of the last action. */
interface Result {
  readonly isGood: boolean;
  readonly text: string;
}

const NAMES: Readonly<Record<ClientAction, string>> = {
  refresh: 'Refresh',
  prune: 'Prune',
  drift_check: 'Drift check',
  log_level: 'Log level',
};
const ACTIONS: readonly ClientAction[] = ['refresh', 'prune', 'drift_check', 'log_level'];

/**
 * What the client can be asked to do: each asks once, and says what became of it. Without the right
 * they are shown, off.
 */
export function Actions({ app, row, answer, isGone, onDone }: ActionsProps) {
  const asked = useSignal<ClientAction | undefined>(undefined);
  const running = useSignal<ClientAction | undefined>(undefined);
  const result = useSignal<Result | undefined>(undefined);
  const level = useSignal<Level>('debug');
  const facts: OffFacts = { app, row: row.value, answer, isGone };

  async function run(action: ClientAction): Promise<void> {
    asked.value = undefined;
    running.value = action;
    result.value = undefined;
    const body: ActionBody = action === 'log_level' ? { action, level: level.value } : { action };
    result.value = await resultOf(app, row.peek().id, body);
    running.value = undefined;
    app.say(result.value.text);
    onDone();
  }

  const current = answer?.details?.log_level;
  return (
    <>
      {ACTIONS.map((action) => (
        <Button
          key={action}
          off={offReason(action, facts) ?? (running.value === undefined ? undefined : 'Another action is under way.')}
          title={TITLES[action]}
          onClick={() => {
            if (action === 'log_level') level.value = current === 'debug' ? 'info' : 'debug';
            asked.value = action;
          }}
        >
          {running.value === action
            ? `${NAMES[action]} …`
            : action === 'log_level' && current
              ? `Log: ${current}`
              : NAMES[action]}
        </Button>
      ))}
      {result.value !== undefined && <p class={result.value.isGood ? 'result' : 'result red'}>{result.value.text}</p>}
      {asked.value !== undefined && (
        <Question
          action={asked.value}
          id={row.value.id}
          answer={answer}
          level={level.value}
          setLevel={(chosen) => {
            level.value = chosen;
          }}
          onConfirm={(action) => {
            run(action).catch((error: unknown) => app.say(String(error)));
          }}
          onClose={() => {
            asked.value = undefined;
          }}
        />
      )}
    </>
  );
}

const TITLES: Readonly<Record<ClientAction, string>> = {
  refresh: 'It fetches policy and data again',
  prune: 'It removes documents that the log does not know',
  drift_check: 'It compares its engine with what it wrote, and repairs differences',
  log_level: 'It logs more, or less, until its next start',
};

interface QuestionProps {
  readonly action: ClientAction;
  readonly id: string;
  readonly answer: ClientAnswer | undefined;
  readonly level: Level;
  readonly setLevel: (level: Level) => void;
  readonly onConfirm: (action: ClientAction) => void;
  readonly onClose: () => void;
}

/** What happens, and whether it can be taken back. */
function Question({ action, id, answer, level, setLevel, onConfirm, onClose }: QuestionProps) {
  const name = <code>{id}</code>;
  const texts: Readonly<Record<ClientAction, ComponentChildren>> = {
    refresh: (
      <p>
        {name} fetches policy and data again and brings its engine in step with them. Its engine goes on deciding
        meanwhile. There is nothing to take back.
      </p>
    ),
    prune: (
      <p>
        {name} removes {orphansText(answer)} from its engine. This cannot be taken back: what is missed then has to be
        published again.
      </p>
    ),
    drift_check: (
      <p>
        {name} compares its engine with what it wrote. What somebody else changed there is overwritten, and that cannot
        be taken back; without a difference nothing changes.
      </p>
    ),
    log_level: (
      <>
        <p>{name} logs with this level until its next start; it can be set back here at any time.</p>
        <label class="level">
          Level{' '}
          <select
            class="select"
            value={level}
            onChange={(event) => setLevel(LEVELS.find((one) => one === event.currentTarget.value) ?? level)}
          >
            {LEVELS.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        </label>
      </>
    ),
  };
  return (
    <Confirm
      title={`${NAMES[action]}?`}
      action={action === 'log_level' ? 'Set the level' : NAMES[action]}
      onConfirm={() => onConfirm(action)}
      onClose={onClose}
    >
      {texts[action]}
    </Confirm>
  );
}

function orphansText(answer: ClientAnswer | undefined): string {
  const total = answer?.details?.orphaned_total;
  if (total === undefined) return 'the documents that the log does not know';
  const first = answer?.details?.orphaned.slice(0, 3).map(({ path }) => path) ?? [];
  return `${count(total, 'document')} that the log does not know (${first.join(', ')}${total > first.length ? ', ...' : ''})`;
}

async function resultOf(app: App, id: string, body: ActionBody): Promise<Result> {
  try {
    const { done, text } = await app.api.post<ActionAnswer>(`/clients/${encodeURIComponent(id)}/actions`, body);
    return { isGood: done, text: `${NAMES[body.action]}${done ? '' : ', not done'}: ${text}` };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { isGood: false, text: `${NAMES[body.action]}, not done: ${error.message} ${error.remedy}` };
  }
}

interface OffFacts {
  readonly app: App;
  readonly row: FleetRow;
  readonly answer: ClientAnswer | undefined;
  readonly isGone: boolean;
}

/** Why the client cannot be asked for this now; undefined: it can. */
function offReason(action: ClientAction, { app, row, answer, isGone }: OffFacts): string | undefined {
  const state = app.session.state.value;
  if (isGone) return 'It is no longer listed.';
  if (!mayAct(state)) return 'Your token may look, not act: sign in with one of the kind datasource.';
  if (row.kind === 'plain') return 'An OPAL client cannot be asked to do anything.';
  if (!row.connected) return 'It is away: it can be asked when it is back.';
  if (answer === undefined) return undefined;
  if (answer.actions?.includes(action) !== false) return cannotReason(action, answer);
  const isLimited = state.kind === 'in' && (state.session.topics !== null || state.session.paths !== null);
  if (answer.details_missing === 'limited' || isLimited) {
    if (action === 'prune') return 'Your token is limited: pruning needs one without limits.';
    return 'Your token is limited: an action needs one that permits all topics and paths of the client.';
  }
  if (answer.details_missing === 'old') return 'This version of the client cannot be asked: update it.';
  return 'Its operator does not permit it: SYNC_CLIENT_REMOTE_ACTIONS is false at the client.';
}

/** Why it would come to nothing, by what the client tells of itself. */
function cannotReason(action: ClientAction, { details }: ClientAnswer): string | undefined {
  const why = details?.cannot?.[action];
  if (why !== undefined) return `It cannot: ${why}.`;
  return action === 'prune' && details?.orphaned_total === 0 ? 'There is nothing to remove.' : undefined;
}
