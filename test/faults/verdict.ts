import { documentDifferences } from '../support/same-documents.js';
import type { Judged, Violation } from './checks.js';
import { judge } from './checks.js';
import { type Client, documents } from './client.js';
import type { Journal } from './journal.js';
import { applied, concerns, type Json, type PlacedEntry } from './model.js';
import { ruleResults, staticData } from './policy-repo.js';
import { BASE_DOCUMENTS, isDead } from './world.js';

/**
 * The documents that a client is to have, by the plain model: static data, base entries, updates in order. Nothing is there of a source
 * that is down for the whole run.
 */
export function desired(entries: readonly PlacedEntry[], commit: number): Json {
  const given = [...staticData(commit), ...BASE_DOCUMENTS];
  const withBase = given.reduce<Json>(
    (root, { path, value }) => applied(root, { n: 0, path, topics: [], what: { method: 'PUT', value } }),
    {},
  );
  return published(entries, withBase);
}

/** Documents with updates applied to them. */
export function published(entries: readonly PlacedEntry[], documents: Json): Json {
  return entries.filter(({ path }) => !isDead(path)).reduce<Json>(applied, documents);
}

/** Documents with what the packages of a commit answer. */
export function withRules(documents: Json, commit: number): Json {
  return { ...(documents as object), app: ruleResults(commit), broken: {} };
}

/** What differs in an engine; see `documentDifferences`. */
export async function compare(client: Client, expected: Json): Promise<string[]> {
  return documentDifferences(JSON.stringify(expected), await documents(client));
}

/**
 * Holds the publications against the log: what was acknowledged is there, once, at the place that was answered; what was
 * refused is not; of the others the log decides. `isWhole`: the log has all there ever was, nothing was dropped.
 */
export function account(
  journal: Journal,
  log: { epoch: string; places: ReadonlyMap<string, readonly number[]> },
  isWhole: boolean,
): string[] {
  const wrong: string[] = [];
  const seqs = new Map<number, string>();
  for (const publication of journal.publications) {
    const { id, outcome, seq, epoch, answer } = publication;
    const places = log.places.get(id) ?? [];
    if (places.length > 1) wrong.push(`${id} is in the log ${places.length} times: ${places.join(', ')}`);
    if (outcome === 'pending') wrong.push(`${id} was never answered`);
    if (outcome === 'refused') {
      // A full backbone refuses updates; nothing else does.
      if (!answer.startsWith('507 ')) wrong.push(`${id} was refused: ${answer}`);
      if (places.length > 0) wrong.push(`${id} was refused and is in the log`);
    }
    if (outcome === 'acknowledged') {
      if (epoch !== log.epoch) wrong.push(`${id} was acknowledged in epoch ${epoch}; the log is ${log.epoch}`);
      if (places.length > 0 ? places[0] !== seq : isWhole) {
        wrong.push(`${id} was acknowledged at ${seq}; in the log it is at ${places[0] ?? 'no place'}`);
      }
    }
    if (outcome === 'unknown' && places[0] !== undefined) {
      publication.seq = places[0];
      publication.epoch = log.epoch;
    }
    if (publication.seq !== undefined) {
      const other = seqs.get(publication.seq);
      if (other !== undefined) wrong.push(`${id} and ${other} have both the place ${publication.seq}`);
      seqs.set(publication.seq, id);
    }
  }
  for (const id of log.places.keys())
    if (journal.byId(id) === undefined) wrong.push(`the log has ${id}, which nobody published`);
  return wrong;
}

/** {@link judge} for each client. */
export function judgeAll(all: readonly Judged[]): Violation[] {
  return all.flatMap(judge);
}

/** Entries of the journal that concern a client. */
export function entriesOf(journal: Journal, epoch: string, client: Client): PlacedEntry[] {
  return journal.placed(epoch, client.topics).filter(({ topics }) => concerns(topics, client.topics));
}
