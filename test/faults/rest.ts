import { field, request } from '../support/http.js';
import { until } from '../support/until.js';
import type { Client } from './client.js';
import type { PlacedEntry } from './model.js';
import { positionOf } from './sampler.js';
import { isDead } from './world.js';

/** What a client must say of itself when nothing is left to do. */
export interface Goal {
  readonly epoch: string;
  /** Entries that concern it, in order. */
  readonly entries: readonly PlacedEntry[];
  /** The commit. */
  readonly hash: string;
}

/**
 * Waits until a client says that it is where it should be: connected, engine there, commit and position as wanted, and
 * nothing failing but what depends on a source that is down. Answers how long it took; rejects with what is missing.
 */
export async function atRest(client: Client, goal: Goal, withinMs: number): Promise<number> {
  const startedMs = performance.now();
  let missing: string[] = [];
  try {
    await until(
      async () => {
        missing = await missingOf(client, goal);
        return missing.length === 0;
      },
      { withinMs, what: `${client.program.name} is at rest` },
    );
  } catch (cause) {
    throw new Error(
      `${client.program.name} is not at rest after ${Math.round(withinMs / 1000)} s: ${missing.join('; ')}`,
      { cause },
    );
  }
  return performance.now() - startedMs;
}

async function missingOf({ apiUrl }: Client, { epoch, entries, hash }: Goal): Promise<string[]> {
  const health = await request(`${apiUrl}/healthy`, { signal: AbortSignal.timeout(2000) }).catch(
    (error: unknown) => error,
  );
  if (health instanceof Error) return [`its API does not answer: ${health.message}`];
  const of = (...place: string[]): unknown => field((health as { json: unknown }).json, ...place);
  const missing: string[] = [];
  const expect = (what: string, is: unknown, should: unknown): void => {
    if (is !== should) missing.push(`${what} is ${JSON.stringify(is)}, not ${JSON.stringify(should)}`);
  };
  expect('server.connected', of('server', 'connected'), true);
  expect('engine.online', of('engine', 'online'), true);
  expect('policy.hash', of('policy', 'hash'), hash);
  expect('last policy transaction', of('policy', 'last_transaction', 'success'), true);
  expect('epoch', of('data', 'epoch'), epoch);
  const failing = of('data', 'failing');
  for (const each of Array.isArray(failing) ? failing : []) {
    const path = String(field(each, 'path'));
    if (!isDead(path)) missing.push(`fails: ${path}: ${field(each, 'error')}`);
  }
  const position = await positionOf(apiUrl);
  if (position === undefined) return [...missing, 'it has no position'];
  const last = entries.at(-1)?.seq ?? 0;
  if (position.through < last) missing.push(`applied through ${position.through}, not ${last}`);
  const dead = new Set(entries.filter(({ path }) => isDead(path)).map(({ seq }) => seq));
  const open = position.unresolved.filter((seq) => !dead.has(seq));
  if (open.length > 0) missing.push(`unresolved: ${open.join(', ')}`);
  return missing;
}
