import assert from 'node:assert/strict';
import type { GitRepo } from './git-repo.js';
import { field } from './http.js';
import { publish, type StartedClient } from './start-client.js';
import type { StartedServer } from './start-server.js';

export const V0 = 'package old\n\nallow {\n\tinput.x == 1\n}\n\ndeny[msg] {\n\tmsg := "no"\n}\n';
export const V1 = 'package young\n\nallow if input.x == 1\n\ndeny contains "no" if not input.x\n';

/** Modules of both versions of Rego: three that only v0 reads, two of v1. */
export const BOTH_VERSIONS: Readonly<Record<string, string>> = {
  'old.rego': V0,
  // Only v0 reads this, and nothing at the beginning of a line shows it.
  'x/hidden*[1].rego': 'package hidden\n\nimport data.old\n\n  allow   { old.allow }\n',
  'young.rego': V1,
  'both.rego': 'package both\n\nimport rego.v1\n\nallow if data.old.allow\n',
  // Both versions parse it; v1 has dropped the function.
  'dropped.rego': 'package dropped\n\nx := any([true])\n',
};

/** What /healthy says of the versions of the modules. */
export async function regoOf(client: StartedClient): Promise<unknown> {
  return field((await client.health()).json, 'engine', 'rego');
}

/** Waits until the engine holds this commit. */
export async function holdsCommit(client: StartedClient, hash: string): Promise<void> {
  await client.tells(`it holds ${hash}`, (health) => field(health, 'policy', 'hash') === hash);
}

/** How a client that tells the versions itself works with {@link BOTH_VERSIONS}, and with `others` modules of v1 beside them. */
export async function bothVersionsWork(
  { client, server, repo }: { client: StartedClient; server: StartedServer; repo: GitRepo },
  { others = 0, endEngine }: { others?: number; endEngine?: () => void } = {},
): Promise<void> {
  await client.answers('/old/allow', { x: 1 }, true);
  await client.answers('/hidden/allow', { x: 1 }, true);
  await client.answers('/young/allow', { x: 1 }, true);
  await client.answers('/both/allow', { x: 1 }, true);
  await client.answers('/dropped/x', {}, true);
  assert.deepEqual(await regoOf(client), { mode: 'auto', v0: 3, v1: 2 + others });
  const line = client.log.findLast(({ msg }) => msg.startsWith('modules by the version of Rego'));
  assert.deepEqual([line?.v0, line?.v1], [3, 2 + others]);

  // A deleted static document under a published one is judged by the program: with the same versions.
  await publish(server.url, { dst_path: '/old/d', data: { n: 1 } });
  await client.holds('/old/d', { n: 1 });
  await holdsCommit(client, await repo.commit({ 'old/d/data.json': '{"n":2}' }));

  // After the engine ended, all of it comes back.
  endEngine?.();
  await client.healthy();
  await client.answers('/hidden/allow', { x: 1 }, true);
  await client.answers('/young/allow', { x: 1 }, true);

  // A module that moves to v1.
  const moved = V0.replaceAll(' {', ' if {').replace('[msg]', ' contains msg');
  await holdsCommit(client, await repo.commit({ 'old.rego': moved }));
  assert.deepEqual(await regoOf(client), { mode: 'auto', v0: 2, v1: 3 + others });
  await client.answers('/both/allow', { x: 1 }, true);
}
