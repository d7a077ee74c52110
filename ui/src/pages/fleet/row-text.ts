import { own } from '../../../../src/fleet-rules/names-of-others.js';
import { policyStateOf } from '../../../../src/fleet-rules/rank.js';
import { behind, commit, DASH, integer, NBSP } from '../../../../src/fleet-rules/words.js';
import type { FleetRow } from '../../../../src/wire/fleet.js';

/** The cells of a client as text, so that a cell is drawn again only where its text changes. */

/** A value, and quietly behind it how far that is from where it should be. */
export interface Distance {
  readonly value: string;
  readonly note: string;
  /** A class for the colour of the note. */
  readonly tone: 'muted' | 'amber' | 'red';
}

const UNKNOWN: Distance = { value: DASH, note: '', tone: 'muted' };

export function heldText(row: FleetRow): Distance {
  const { held, behind: distance } = row.policy;
  const state = policyStateOf(row);
  if (state === 'does_not_say' || state === 'none') return UNKNOWN;
  const tone = state === 'refused' ? 'red' : state === 'away' ? 'amber' : 'muted';
  if (held === null) return { value: '', note: 'nothing yet', tone };
  return { value: commit(held), note: distance === null ? 'another one' : behind(distance), tone };
}

export function dataText({ data }: FleetRow): Distance {
  if (data.at === null) return UNKNOWN;
  const isThere = data.behind === 0 && !data.at_least;
  const isFailing = data.state === 'failing';
  // It has been through all of them: those that are missing fail.
  const word = isFailing && (isThere || data.at >= data.newest) ? 'failing' : 'behind';
  const missing = isThere ? '' : `${integer(data.behind)}${data.at_least ? '+' : ''}${NBSP}`;
  const note = isThere && !isFailing ? '' : missing + word;
  return {
    value: integer(data.at),
    note,
    tone: isFailing || data.state === 'blocked' ? 'red' : isThere ? 'muted' : 'amber',
  };
}

/** The values of the labels that have a place, as in the head of their column. */
export function labelsText({ labels }: FleetRow, names: readonly string[]): string {
  const values = names.map((name) => own(labels, name) ?? DASH);
  return values.every((value) => value === DASH) ? DASH : values.join(', ');
}

/** `refunds.rego:41`: the folder is in the title. */
export function placeText({ error }: FleetRow): string {
  if (error === null) return '';
  return error.place.includes('.rego') ? (error.place.split('/').at(-1) ?? '') : error.place;
}

/** What is wrong. */
export function errorText({ error }: FleetRow): string {
  return error === null ? '' : error.text;
}

/** The error in full, for a title. */
export function errorTitle({ error }: FleetRow): string {
  return error === null ? '' : `${error.place} ${error.text}`.trim();
}

/** The second line of a narrow screen: the error, else how its data is. */
export function noteText(row: FleetRow, labels: readonly string[]): string {
  if (row.error !== null) return `${placeText(row)} ${errorText(row)}`.trim();
  const { value, note } = dataText(row);
  const data = row.kind === 'plain' ? 'OPAL client' : `data ${note === '' ? `at ${value}` : note}`;
  const labelled = labelsText(row, labels);
  return labelled === DASH ? data : `${labelled} · ${data}`;
}
