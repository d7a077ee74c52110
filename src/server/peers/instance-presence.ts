import { SILENT_AFTER_MS } from './instance-rules.js';

/** How this instance knows another one, as a table: how its clients count, and what is missing. */

/** What the state follows from. */
export interface PresenceFacts {
  /** False: what it says cannot be read here. */
  readonly isReadable: boolean;
  /** It has said that it ended in order, or the server that has its state folder now says so. */
  readonly hasEnded: boolean;
  /** How long ago it said something, in milliseconds, by the clock of the store. */
  readonly ageMs: number;
  /** Clients connected to it when it was last heard; known only of one not heard lately. */
  readonly connected: number;
  /** Those of them that have not been seen elsewhere since. */
  readonly missing: number;
}

/**
 * `live`: it was heard lately. `silent`: it was not heard lately, and clients may still be
 * connected to it: that nobody hears of it does not prove that nobody is there. `gone`: it was not
 * heard lately, and all that were connected to it have come elsewhere. `ended`: it has ended in
 * order. `unreadable`: it is of another version.
 */
export type PresenceState = 'live' | 'silent' | 'gone' | 'ended' | 'unreadable';

/** An older announcement was not renewed in time, for the others and the instance itself. */
export const LEASE_MS = SILENT_AFTER_MS;
/** After this time an instance that was not heard, and had no client, counts as gone. */
export const EXPECTED_MS = 900_000;

/** The first rule that holds decides. */
const RULES: readonly (readonly [state: PresenceState, holds: (facts: PresenceFacts) => boolean])[] = [
  ['unreadable', ({ isReadable }) => !isReadable],
  ['ended', ({ hasEnded }) => hasEnded],
  ['gone', (facts) => facts.ageMs > LEASE_MS && isLeft(facts)],
  ['silent', ({ ageMs }) => ageMs > LEASE_MS],
  ['live', () => true],
];

/** Clients whose connection broke come elsewhere: they show that it serves nobody any more. */
function isLeft({ connected, missing, ageMs }: PresenceFacts): boolean {
  return connected > 0 ? missing === 0 : ageMs > EXPECTED_MS;
}

export function presenceState(facts: PresenceFacts): PresenceState {
  return RULES.find(([, holds]) => holds(facts))?.[0] ?? 'live';
}

/** As what clients count that were connected to an instance in this state. */
export const COUNTED_AS: Readonly<Record<PresenceState, 'as_said' | 'away' | 'nothing'>> = {
  live: 'as_said',
  silent: 'away',
  gone: 'nothing',
  ended: 'away',
  unreadable: 'nothing',
};

/** Why clients may be missing; undefined: none are. Has no counts: limited callers see it. */
export function whyMissing(
  instance: string,
  state: PresenceState,
  { ageMs, connected }: Pick<PresenceFacts, 'ageMs' | 'connected'>,
): string | undefined {
  switch (state) {
    case 'unreadable':
      return `what server instance ${instance} says cannot be read: it may be of another version`;
    case 'silent': {
      const silence = `server instance ${instance} has said nothing for ${Math.round(ageMs / 1000)} s`;
      return connected === 0
        ? `${silence}: clients may be connected to it`
        : `${silence}, and not all of its clients have come to another one`;
    }
    default:
      return undefined;
  }
}
