import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CompiledPolicy } from '../../src/embedded/compiled/compiled-policy.js';
import { compileRego } from '../support/compile-rego.js';

const REGO = `package t

default allow := false
allow if {
	some role in data.users[input.user].roles
	some permission in data.roles[role]
	permission.action == input.action
	permission.kind == input.kind
}
`;
/** How much: all that is promised, or enough to see what grows. */
const {
  patches,
  decisionsPerPatch,
  users: userCount,
} = process.env.SYNC_TEST_LONG === '1'
  ? { patches: 100_000, decisionsPerPatch: 10, users: 2_000 }
  : { patches: 10_000, decisionsPerPatch: 2, users: 100 };
const ROLES = 50;

interface User {
  roles: string[];
  [more: string]: unknown;
}
interface Documents {
  users: Record<string, User>;
  roles: Record<string, { action: string; kind: string }[]>;
}

/** Pseudo-random whole numbers from 0 to below the limit, the same in each run. */
function randomFrom(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff;
    return (state >>> 8) % limit;
  };
}

/** New users, changed ones of any size, and users that go. */
function change(random: (limit: number) => number): { user: string; value: User | undefined } {
  const user = `u${random(userCount * 1.5)}`;
  if (random(3) === 0) return { user, value: undefined };
  const roles = Array.from({ length: random(8) }, () => `r${random(ROLES)}`);
  const more = {
    note: 'x'.repeat(random(400)),
    [`é${random(20)}`]: [random(9), null, true, { deep: random(1_000_000) }],
  };
  return { user, value: random(4) === 0 ? { roles } : { roles, ...more } };
}

function isAllowed({ users, roles }: Documents, input: { user: string; action: string; kind: string }): boolean {
  const permissions = users[input.user]?.roles.flatMap((role) => roles[role] ?? []) ?? [];
  return permissions.some(({ action, kind }) => action === input.action && kind === input.kind);
}

test(`${patches} patches between ${patches * decisionsPerPatch} decisions: right answers, and memory stays flat`, async (t) => {
  const module = await compileRego(REGO, ['t/allow']);
  const random = randomFrom(42);
  const documents: Documents = { users: {}, roles: {} };
  for (let role = 0; role < ROLES; role++) {
    const permission = (): { action: string; kind: string } => ({ action: `a${random(10)}`, kind: `k${random(10)}` });
    documents.roles[`r${role}`] = Array.from({ length: 10 }, permission);
  }
  for (let user = 0; user < userCount; user++)
    documents.users[`u${user}`] = { roles: [`r${random(ROLES)}`, `r${random(ROLES)}`] };
  const text = JSON.stringify(documents);
  const policy = new CompiledPolicy(module, { memoryLimitBytes: 256 * 1024 * 1024, documentBytes: text.length });
  policy.setDocuments(text);

  const makeChanges = (count: number): void => {
    for (let done = 0; done < count; done++) {
      const { user, value } = change(random);
      policy.patch([{ path: ['users', user], text: value === undefined ? undefined : JSON.stringify(value) }]);
      if (value === undefined) delete documents.users[user];
      else documents.users[user] = value;
      for (let asked = 0; asked < decisionsPerPatch; asked++) {
        const who = asked === 0 ? user : `u${random(userCount)}`;
        const input = { user: who, action: `a${random(10)}`, kind: `k${random(10)}` };
        if (policy.evaluate('t/allow', JSON.stringify(input)) !== String(isAllowed(documents, input)))
          assert.fail(`after ${done} changes: wrong answer to ${JSON.stringify(input)}`);
      }
    }
  };
  // The documents grow to the size that they keep: by then each user has been changed at least once.
  makeChanges(patches / 2);
  const halfway = { heap: policy.heapBytes, memory: policy.memoryBytes };
  makeChanges(patches / 2);
  const end = { heap: policy.heapBytes, memory: policy.memoryBytes };
  t.diagnostic(`bytes halfway ${JSON.stringify(halfway)}, at the end ${JSON.stringify(end)}`);
  assert(end.heap <= halfway.heap * 1.05, `the heap grows from ${halfway.heap} to ${end.heap} bytes`);
  assert(end.memory <= halfway.memory * 1.05, `the memory grows from ${halfway.memory} to ${end.memory} bytes`);
  assert.deepEqual(JSON.parse(policy.read([]) ?? ''), documents);
});
