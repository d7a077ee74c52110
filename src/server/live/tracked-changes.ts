import type { FleetChange } from '../../wire/fleet.js';
import type { TraceConvergence } from '../../wire/trace.js';
import type { ChangeFacts } from './change-facts.js';
import {
  type ChangeRules,
  changeConvergence,
  changeView,
  commonestError,
  type RulesContext,
  rulesOf,
  settledThrough,
} from './change-rules.js';
import { ChangeTally } from './change-tally.js';
import type { RowEntry } from './rows.js';
import type { Slices } from './slices.js';

type NumberedClient = Pick<RowEntry, 'client' | 'slot'>;

/** What a look at the clients has found, see `FleetRows`. */
export interface ChangedClients {
  /** All of them as they are now. */
  readonly all: readonly NumberedClient[];
  readonly changed: readonly NumberedClient[];
  readonly gone: readonly NumberedClient[];
}

interface Tracked {
  readonly tally: ChangeTally;
  readonly stamp: string;
  /** Facts as a text: a change whose facts are others reads differently. */
  readonly factsText: string;
  /** What most of the clients say at which it fails. */
  readonly error: FleetChange['error'];
  readonly view: FleetChange;
}

/** A change during a look. */
interface Looked {
  readonly change: ChangeFacts;
  readonly before: Tracked | undefined;
  readonly rules: ChangeRules;
  readonly tally: ChangeTally;
  hasChanged: boolean;
  /** A client that refuses it, or fails with it, may say another reason. */
  hasReasons: boolean;
}

/** The newest changes with how far each came, kept current with the clients that change. */
export class TrackedChanges {
  #tracked = new Map<number | string, Tracked>();

  /** The view of each change, in their order: the same object where nothing has changed. */
  async look(
    changes: readonly ChangeFacts[],
    { all, changed, gone }: ChangedClients,
    context: RulesContext,
    slices: Slices,
  ): Promise<FleetChange[]> {
    const looked = changes.map((change): Looked => {
      const known = this.#tracked.get(change.key);
      const rules = rulesOf(change, context);
      // Where something else than clients has changed, each client may be in another state.
      const isWhole = known === undefined || rules.stamp !== known.stamp;
      return {
        change,
        before: known,
        rules,
        tally: known?.tally ?? new ChangeTally(),
        hasChanged: isWhole,
        hasReasons: false,
      };
    });
    for (const one of looked) {
      for (const { slot } of gone) one.hasChanged = one.tally.set(slot, undefined, false) || one.hasChanged;
    }
    const whole = looked.filter(({ before, rules }) => rules.stamp !== before?.stamp);
    const rest = looked.filter(({ before, rules }) => rules.stamp === before?.stamp);
    await setStates(whole, all, context.epoch, slices);
    await setStates(rest, changed, context.epoch, slices);
    const tracked = new Map<number | string, Tracked>();
    for (const one of looked) {
      tracked.set(one.change.key, viewed(one, all));
      if (slices.isDue) await slices.pause();
    }
    this.#tracked = tracked;
    return [...tracked.values()].map(({ view }) => view);
  }
}

/** Client by client, since a client is larger than all its states. */
async function setStates(
  changes: readonly Looked[],
  clients: readonly NumberedClient[],
  epoch: string,
  slices: Slices,
): Promise<void> {
  if (changes.length === 0) return;
  for (const numbered of clients) {
    setState(changes, numbered, epoch);
    if (slices.isDue) await slices.pause();
  }
}

function setState(changes: readonly Looked[], { client, slot }: NumberedClient, epoch: string): void {
  const settled = settledThrough(client, epoch);
  for (const one of changes) {
    const { rules, tally } = one;
    if (rules.settledAt <= settled && tally.isApplied(slot)) continue;
    if (tally.set(slot, rules.standingOf(client)?.state, rules.counts(client))) one.hasChanged = true;
    if (tally.hasFailed(slot)) one.hasReasons = true;
  }
}

function viewed(looked: Looked, all: readonly NumberedClient[]): Tracked {
  const { change, before, rules, tally, hasChanged, hasReasons } = looked;
  const factsText =
    change.kind === 'data'
      ? ''
      : JSON.stringify([change.state, change.error, change.about, change.atMs, change.topics]);
  const error = hasChanged || hasReasons ? errorNow(rules, tally, all) : (before?.error ?? null);
  const isSame = factsText === before?.factsText && JSON.stringify(error) === JSON.stringify(before.error);
  if (before !== undefined && !hasChanged && isSame) return before;
  const convergence = hasChanged ? convergenceNow(rules, tally, all) : (before?.view.convergence ?? null);
  const { counts, total } = tally;
  const view = changeView(change, { counts, total, convergence, error });
  return { tally, stamp: rules.stamp, factsText, error, view };
}

function errorNow(rules: ChangeRules, tally: ChangeTally, all: readonly NumberedClient[]): FleetChange['error'] {
  const failed = all.filter(({ slot }) => tally.hasFailed(slot)).map(({ client }) => client);
  return commonestError(rules, failed);
}

function convergenceNow(
  rules: ChangeRules,
  tally: ChangeTally,
  all: readonly NumberedClient[],
): TraceConvergence | null {
  const counted = all.filter(({ slot }) => tally.isCounted(slot)).map(({ client }) => client);
  return changeConvergence(rules, counted);
}
