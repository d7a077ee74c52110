import { day } from '../../../../src/fleet-rules/words.js';
import type { DataDocument } from '../../../../src/wire/fleet-views.js';

/** How long the log keeps a document. */
export function retained({ retained_until: until }: Pick<DataDocument, 'retained_until'>, now: number): string {
  return until === null ? 'for ever' : `to ${day(until, now)}`;
}
