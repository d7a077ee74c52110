import type { FailureKind } from '../../wire/session.js';

/** What is said of a failure to those who may not read its text: that can quote an answer from inside the network of a client. */
const KIND_TEXTS: Readonly<Record<FailureKind, string>> = {
  source: 'its data source does not give it',
  engine: 'the engine could not be written',
  refused: 'the engine refuses it',
  config: 'the data configuration cannot be read',
};

/** The text for a kind; older clients say none, newer ones may say others. */
export function kindText(kind: string | undefined): string {
  return Object.entries(KIND_TEXTS).find(([known]) => known === kind)?.[1] ?? 'it fails at the client';
}
