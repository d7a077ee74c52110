import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { DecisionChange } from '../../src/client/decisions/decision.js';
import { startDataSource } from '../support/data-source.js';
import { gitRepo } from '../support/git-repo.js';
import { startOpa } from '../support/opa.js';
import { following, publish, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const POLICY = `package app.rbac
default allow := false
allow if data.users[input.user].admin
reasons contains "admin" if allow
limit := 12345678901234567890
maybe if input.user == "ann"
default given := "no input"
given := type_name(input)
listed := ["zero", "one"]
clash := "one" if input.user
clash := "two" if input.user

# Takes seconds, whatever evaluates it.
slow if {
  some i in numbers.range(1, 20000)
  some j in numbers.range(1, 20000)
  i * j == -1
}
`;

const WITHIN = { withinMs: 20_000 };

/** Once it is compiled all that is asked here takes milliseconds, but the rule that does not. */
const DECISION_TIMEOUT = '1.5';

/** How a client gets its answers, and what they say of it after the first. */
const MODES = {
  inline: { by: 'opa' },
  external: { by: 'opa' },
  embedded: { by: 'compiled' },
} as const;

for (const [mode, { by }] of Object.entries(MODES)) {
  const isEmbedded = mode === 'embedded';
  describe(`decisions in process (${mode})`, () => {
    let world: World;
    before(async () => {
      world = await startWorld(mode);
    });
    after(() => world?.[Symbol.asyncDispose]());

    it('answers by the first policy and data, with commit and place in the log', async () => {
      const { asked, server, hash, first } = world;
      // Asked before anything has arrived: it waits.
      const no = await first;
      assert.deepEqual([no.kind, no.result, no.allowed], ['result', false, false]);
      assert.equal(no.by, isEmbedded ? 'go' : 'opa');
      assert.equal(no.policy, hash);
      const seq = await publish(server.url, { dst_path: '/users', data: { ann: { admin: true }, bob: {} } });
      await until(async () => (await asked.decide('app/rbac/allow', { user: 'ann' })).allowed, {
        ...WITHIN,
        what: 'ann is allowed',
      });
      const yes = await asked.decide('app/rbac/allow', { user: 'ann' });
      await until(async () => (await asked.decide('app/rbac/allow', { user: 'ann' })).by === by, {
        ...WITHIN,
        what: `${by} decides`,
      });
      assert.equal(yes.position?.seq, seq);
      assert.match(yes.position?.epoch ?? '', /./);
      const many = await asked.decideMany<boolean>(
        'app/rbac/allow',
        ['ann', 'bob', 'eve'].map((user) => ({ user })),
      );
      assert.deepEqual(
        many.map(({ result }) => result),
        [true, false, false],
      );
      assert.equal(new Set(many.map(({ id }) => id)).size, 3);
      const mixed = await asked.decideMany([
        { path: 'app/rbac/limit' },
        { path: 'app/rbac/reasons', input: { user: 'ann' } },
        { path: 'users/bob' },
      ]);
      assert.deepEqual(
        mixed.map(({ text }) => text),
        ['12345678901234567890', '["admin"]', '{}'],
      );
    });

    it('names no place before which the engine lacks an update, however much came after it', async () => {
      const { asked, server } = world;
      await using source = await startDataSource();
      source.answer('/never', { fault: 'silent' });
      const lacking = await publish(server.url, { url: `${source.url}/never`, dst_path: '/never' });
      await publish(server.url, { dst_path: '/after', data: 1 });
      await until(async () => (await asked.decide('after')).result === 1, {
        ...WITHIN,
        what: 'what came after it is in',
      });
      assert.equal((await asked.decide('after')).position?.seq, lacking - 1);
      const last = await publish(server.url, { dst_path: '/never', save_method: 'DELETE' });
      await until(async () => (await asked.decide('after')).position?.seq === last, { ...WITHIN, what: 'all is in' });
    });

    it('tells a decision that is undefined from one that fails', async () => {
      const { asked } = world;
      assert.equal((await asked.decide('app/rbac/maybe', { user: 'bob' })).kind, 'undefined');
      assert.equal((await asked.decide('no/such/rule')).kind, 'undefined');
      await assert.rejects(asked.decide('app/rbac/clash', { user: 'bob' }), {
        code: 'decision_failed',
        message: /must not produce multiple|conflict/,
      });
      const denied = await asked.decide('app/rbac/clash', { user: 'bob' }, { onUnavailable: 'deny' });
      assert.deepEqual([denied.kind, denied.allowed, denied.error?.code], ['unavailable', false, 'decision_failed']);
    });

    it('null is no input, and 1.0 in a path is an index, as for the REST API of OPA', async () => {
      const { asked } = world;
      const given = async (...input: unknown[]) => (await asked.decide('app/rbac/given', ...input)).result;
      await until(async () => (await asked.decide('app/rbac/given', {})).by === by, {
        ...WITHIN,
        what: `${by} decides`,
      });
      assert.deepEqual([await given(), await given(undefined), await given(null)], Array(3).fill('no input'));
      assert.deepEqual([await given({}), await given([null]), await given('null')], ['object', 'array', 'string']);
      const [many] = await asked.decideMany('app/rbac/given', [null]);
      assert.equal(many?.result, 'no input');
      for (const index of ['1', '1.0', '01.', '+1.00'])
        assert.equal((await asked.decide(`app/rbac/listed/${index}`)).result, 'one', index);
      await assert.rejects(asked.decide('app/rbac/listed/1.1'), { code: 'decision_failed' });
    });

    it('tells when data or policy changed, and answers by the change then', async () => {
      const { asked, server, repo } = world;
      const question = ['app/rbac/allow', { user: 'ann' }] as const;
      const answers = (allowed: boolean): Promise<unknown> =>
        until(async () => (await asked.decide(...question)).allowed === allowed, {
          ...WITHIN,
          what: `ann is ${allowed ? 'in' : 'out'}`,
        });
      await publish(server.url, { dst_path: '/users', data: {} });
      await answers(false);
      const changes: (DecisionChange & { allowed: Promise<boolean> })[] = [];
      const end = asked.onChange('app/rbac/allow', (change) => {
        changes.push({ ...change, allowed: asked.decide(...question).then(({ allowed }) => allowed) });
      });
      await publish(server.url, { dst_path: '/users', data: { ann: { admin: true } } });
      await until(() => changes.some(({ what }) => what === 'data'), { ...WITHIN, what: 'a change of data' });
      assert.equal(await changes.findLast(({ what }) => what === 'data')?.allowed, true);
      changes.length = 0;
      const hash = await repo.commit({ 'rbac.rego': `${POLICY}# another\n` });
      await until(() => changes.some(({ what }) => what === 'policy'), { ...WITHIN, what: 'a change of policy' });
      await until(async () => (await asked.decide(...question)).policy === hash, {
        ...WITHIN,
        what: 'the new commit',
      });
      end();
      changes.length = 0;
      await publish(server.url, { dst_path: '/users', data: {} });
      await answers(false);
      assert.deepEqual(changes, []);
    });

    if (mode === 'external')
      it('an engine that lost our state is not asked for a no', async () => {
        const { asked, opa } = world;
        assert(opa);
        await opa.kill();
        world.opa = await startOpa({ port: opa.port });
        assert.equal(world.opa.port, opa.port);
        const kinds = new Set<string>();
        await until(
          async () => {
            const decision = await asked.decide('app/rbac/maybe', { user: 'ann' }, { onUnavailable: 'deny' });
            kinds.add(decision.kind);
            return decision.kind === 'result';
          },
          { ...WITHIN, what: 'the engine has the policy again' },
        );
        assert(!kinds.has('undefined'), 'an empty engine is not a policy without an answer');
      });

    if (!isEmbedded)
      it('an engine that ends is no answer, and never a no of the policy', async () => {
        const { asked, client, opa } = world;
        const question = ['app/rbac/reasons', { user: 'ann' }] as const;
        const { result } = await asked.decide(...question, { onUnavailable: 'last' });
        if (opa === undefined) process.kill(client.enginePid(), 'SIGKILL');
        else await opa.kill();
        // Until the client notices, and while the engine is away or being filled; a restarted one has the answer again.
        const seen = new Set<string>();
        for (let left = 200; left > 0; left--) {
          const decision = await asked.decide(...question, { onUnavailable: 'last' });
          assert.deepEqual(decision.result, result);
          seen.add(decision.error?.code ?? 'fresh');
          if (decision.stale) assert.match(String(decision.error?.code), /^(engine_unreachable|decision_not_ready)$/);
          if (seen.size > 1 && seen.has('fresh') && opa === undefined) break;
          await new Promise((resolve) => setImmediate(resolve));
        }
        assert(seen.size > (seen.has('fresh') ? 1 : 0), [...seen].join());
        await client.stop();
        await assert.rejects(asked.decide(...question), { code: 'already_stopped' });
      });

    if (!isEmbedded) return;

    it('a compiled one changes with the documents that it reads, and with no others', async () => {
      const { asked, server } = world;
      const question = ['app/rbac/allow', { user: 'ann' }] as const;
      await compiled(asked, question);
      const changes: string[] = [];
      const end = asked.onChange('app/rbac/allow', ({ what }) => changes.push(what));
      await publish(server.url, { dst_path: '/other', data: { x: 1 } });
      await until(async () => (await asked.decide('other/x')).result === 1, { ...WITHIN, what: '/other is there' });
      await new Promise((resolve) => setImmediate(resolve));
      assert.deepEqual(changes, []);
      await publish(server.url, { dst_path: '/users/ann', data: { admin: true } });
      await until(() => changes.length > 0, { ...WITHIN, what: 'a change' });
      assert.deepEqual(changes, ['data']);
      assert.equal((await asked.decide(...question)).allowed, true);
      end();
    });

    it('one beyond its time limit is no answer, and the others go on', async () => {
      const { asked } = world;
      const question = ['app/rbac/allow', { user: 'ann' }] as const;
      await compiled(asked, question);
      const [slow, quick] = await Promise.allSettled([asked.decide('app/rbac/slow'), asked.decide(...question)]);
      assert.equal(slow.status === 'rejected' && slow.reason.code, 'decision_timeout');
      assert.equal(quick.status === 'fulfilled' && quick.value.kind, 'result');
      const denied = await asked.decide('app/rbac/slow', undefined, { onUnavailable: 'deny' });
      assert.deepEqual([denied.kind, denied.error?.code], ['unavailable', 'decision_timeout']);
      assert.equal((await asked.decide(...question)).kind, 'result');
    });
  });
}

type World = Awaited<ReturnType<typeof startWorld>>;

/** Server, client and engine, with the first question, which is asked at once. */
async function startWorld(mode: string) {
  const repo = await gitRepo();
  const hash = await repo.commit({ 'rbac.rego': POLICY });
  // Without its first look the policy comes after the question.
  const server = await startServer(following(repo), { waitForPolicy: mode === 'external' });
  const opa = mode === 'external' ? await startOpa() : undefined;
  const client = await startClient({
    serverUrl: server.url,
    ...(opa === undefined ? {} : { engineUrl: opa.url }),
    ...(mode === 'embedded' && {
      engine: 'embedded' as const,
      env: { SYNC_EMBEDDED_ENGINE_DECISION_TIMEOUT: DECISION_TIMEOUT },
    }),
  });
  const asked = client.client;
  const first = asked.decide<boolean>('app/rbac/allow', { user: 'ann' }, { waitMs: 20_000 });
  first.catch(() => undefined); // awaited by the first test
  return {
    ...{ repo, hash, server, client, asked, first },
    opa,
    async [Symbol.asyncDispose]() {
      await client.stop();
      await this.opa?.stop();
      await server[Symbol.asyncDispose]();
      await repo[Symbol.asyncDispose]();
    },
  };
}

/** Waits until the answer to a question is that of its compiled policy. */
async function compiled(asked: World['asked'], question: readonly [path: string, input: unknown]): Promise<void> {
  await until(async () => (await asked.decide(...question)).by === 'compiled', { ...WITHIN, what: 'it is compiled' });
}
