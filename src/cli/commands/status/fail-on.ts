import type { ClientsAnswer } from '../../../wire/clients.js';
import { refusedUpdates } from '../../../wire/refused-updates.js';
import { EXIT, ExitError, UsageError } from '../../kit/run-program.js';
import { counted, printable, shortName } from '../../kit/text.js';
import { CONDITIONS, type Condition, conditionsOf, conditionsOfRow } from '../../live/client-state.js';
import type { FleetState } from '../../live/fleet-state.js';
import { sourceFails } from '../../live/reason-lines.js';
import { refusingText } from '../../live/refusing.js';

/** Maximum clients in the message. */
const NAMED = 5;

/**
 * Parses the conditions of `--fail-on unhealthy,away`, the worst first. Throws {@link UsageError}
 * for an unknown word.
 */
export function parseFailOn(text: string | undefined): readonly Condition[] {
  return text === undefined ? [] : parseConditions('--fail-on', text);
}

/**
 * Parses conditions, the worst first; `option` is for the {@link UsageError} of an unknown word.
 */
export function parseConditions(option: string, text: string): readonly Condition[] {
  const words = text.split(',').map((word) => word.trim());
  const unknown = words.find((word) => !CONDITIONS.some((condition) => condition === word));
  if (unknown !== undefined) throw new UsageError(`${option} takes ${CONDITIONS.join(', ')} (is "${unknown}")`);
  return CONDITIONS.filter((condition) => words.includes(condition));
}

/**
 * Throws {@link ExitError} with the exit code of the worst condition that a client meets. A failing
 * policy source, or one whose head is refused, counts as `unhealthy`; so does an update log that
 * refuses updates. If none is met, and there may be clients that are not known, that has a code of
 * its own.
 */
export function failOnFleet(conditions: readonly Condition[], answer: ClientsAnswer): void {
  const { clients, policy_source: source, log_refuses: refusal, incomplete } = answer;
  const met = clients.map((client) => ({ id: client.client_id, conditions: conditionsOf(client) }));
  const refuses = refusal && `the update log takes no ${refusedUpdates(refusal.from_bytes)}`;
  failOnAny(conditions, met, { source, refuses, incomplete });
}

/** {@link failOnFleet} for the fleet as the stream tells it: of all instances. */
export function failOnStream(conditions: readonly Condition[], { fleet, rows }: FleetState): void {
  const met = [...rows.values()].map((row) => ({ id: row.id, conditions: conditionsOfRow(row) }));
  const { source, summary, instances } = fleet;
  const refuses = refusingText(instances);
  failOnAny(conditions, met, { source: source ?? undefined, refuses, incomplete: summary.incomplete });
}

/** What is known beside the clients. */
interface Beside {
  readonly source: ClientsAnswer['policy_source'];
  /** Which updates the log does not take; undefined: it takes all. */
  readonly refuses: string | undefined;
  /** Why there may be other clients than these; null: there are none. */
  readonly incomplete: string | null;
}

function failOnAny(
  conditions: readonly Condition[],
  clients: readonly { readonly id: string; readonly conditions: ReadonlySet<Condition> }[],
  { source, refuses, incomplete }: Beside,
): void {
  for (const condition of conditions) {
    const ids = clients.filter((client) => client.conditions.has(condition)).map(({ id }) => id);
    const isSource = condition === 'unhealthy' && source !== undefined && sourceFails(source);
    const log = condition === 'unhealthy' ? refuses : undefined;
    if (ids.length === 0 && !isSource && log === undefined) continue;
    const named = ids.slice(0, NAMED).map((id) => shortName(id, 48));
    const more = ids.length > NAMED ? `, and ${ids.length - NAMED} more` : '';
    const clientsText = `${counted(ids.length, 'client')} ${ids.length === 1 ? 'is' : 'are'} ${condition}`;
    const parts = [
      ...(isSource ? ['the policy source is failing'] : []),
      ...(log === undefined ? [] : [log]),
      ...(ids.length === 0 ? [] : [`${clientsText}: ${named.join(', ')}${more}`]),
    ];
    throw conditionMet(condition, parts.join('; '));
  }
  if (conditions.length === 0 || incomplete === null) return;
  const text = `no client that is known is ${conditions.join(' or ')}, but there may be more clients: ${printable(incomplete)}`;
  throw new ExitError('condition_met', text, EXIT.incomplete);
}

/** {@link failOnFleet} for the state that one client reports of itself. */
export function failOnClient(conditions: readonly Condition[], met: ReadonlySet<Condition>): void {
  const worst = conditions.find((condition) => met.has(condition));
  if (worst !== undefined) throw conditionMet(worst, `the client is ${worst}`);
}

function conditionMet(condition: Condition, message: string): ExitError {
  return new ExitError('condition_met', message, EXIT[condition]);
}
