import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { pino } from 'pino';
import type { EngineAnswer, EngineQuestion } from '../../embedded/vocabulary.js';
import { SyncError } from '../../lib/errors.js';
import { silentLogger } from '../../lib/observe/log.js';
import type { DecisionEngine } from '../engine/decision-engine.js';
import type { DecisionChange, DecisionDefaults } from './decision.js';
import { type DecidingClient, Decisions } from './decisions.js';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const AWAY = new SyncError('engine_unreachable', 'nobody there', { retryable: true });

type Reply = string | undefined | SyncError;

/** Decisions over an engine that answers what the test says. */
function world(defaults: DecisionDefaults = {}) {
  const state = {
    ...{ ready: true, filled: true, reply: 'true' as Reply, asked: [] as EngineQuestion[] },
    cutOffSinceMs: undefined as number | undefined,
  };
  const lines: Record<string, unknown>[] = [];
  const log = pino({ base: null }, { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) });
  const engine: DecisionEngine = {
    decide: (question): EngineAnswer => {
      state.asked.push(question);
      if (state.reply instanceof SyncError) throw state.reply;
      return { text: state.reply, by: 'compiled', policy: 'of the engine' };
    },
    reads: (path) => (path === 'app/known' ? [['users']] : undefined),
  };
  const client: DecidingClient = {
    engine,
    isReady: () => state.ready,
    isFilled: () => state.filled,
    reason: () => 'it sleeps',
    policy: () => 'of the client',
    position: () => ({ epoch: 'e', seq: 7 }),
    serverCutOffSinceMs: () => state.cutOffSinceMs,
  };
  const decisions = new Decisions(defaults, { log });
  const attached = (): Decisions => {
    decisions.attach(client);
    return decisions;
  };
  return { state, client, decisions, lines, attached };
}

describe('a decision', () => {
  it('says since when the server of the client has been cut off, whatever it decides', async () => {
    const { state, attached } = world();
    const decisions = attached();
    assert.equal((await decisions.decide('app/allow')).serverCutOffSinceMs, undefined);
    state.cutOffSinceMs = 5;
    for (const reply of ['true', 'false', '{"allow":true}', undefined]) {
      state.reply = reply;
      assert.equal((await decisions.decide('app/allow')).serverCutOffSinceMs, 5, reply);
    }
  });

  it('is refused at once where the client cannot go on, with the reason, also to those who wait', async () => {
    const { state, decisions, client } = world({ waitMs: 60_000 });
    const waiting = decisions.decide('app/allow');
    const taken = new SyncError('engine_address_in_use', 'the port is taken');
    decisions.fail(taken);
    const refused = {
      ...{ name: 'SyncError', code: 'engine_address_in_use', retryable: false, cause: taken },
      message: 'this client decides no more: the port is taken',
    };
    await assert.rejects(waiting, refused);
    state.filled = true;
    decisions.attach(client);
    await assert.rejects(decisions.decide('app/allow'), refused);
    assert.equal((await decisions.decide('app/allow', 1, { onUnavailable: 'deny' })).error?.code, refused.code);
    decisions.fail(new Error('and another one'));
    await assert.rejects(decisions.decide('app/allow'), refused);
    assert.deepEqual(state.asked, []);
    decisions.stop();
    await assert.rejects(decisions.decide('app/allow'), { code: 'already_stopped' });
  });

  it('tells result, policy, position and what decided, under an id of its own', async () => {
    const { state, attached } = world();
    const decisions = attached();
    const { id, ...yes } = await decisions.decide('/app/rbac/allow/', { user: 'ann' });
    assert.match(id, UUID);
    assert.deepEqual(yes, {
      ...{ kind: 'result', result: true, text: 'true', allowed: true, by: 'compiled', policy: 'of the engine' },
      ...{ position: { epoch: 'e', seq: 7 }, serverCutOffSinceMs: undefined, stale: false, ageMs: 0, error: undefined },
    });
    assert.deepEqual(state.asked, [{ path: 'app/rbac/allow', input: '{"user":"ann"}' }]);
    assert.notEqual((await decisions.decide('app/rbac/allow')).id, id);
    assert.equal(state.asked[1]?.input, undefined);
  });

  for (const [text, allowed] of [
    ['true', true],
    ['false', false],
    ['"true"', false],
    ['1', false],
    ['[true]', false],
    ['{"allow":true,"why":"x"}', true],
    ['{"allow":"true"}', false],
    ['null', false],
    [undefined, false],
  ] as const) {
    it(`${text} is ${allowed ? 'a yes' : 'no yes'}`, async () => {
      const { state, attached } = world();
      state.reply = text;
      const decision = await attached().decide('a/b');
      assert.equal(decision.allowed, allowed);
      assert.equal(decision.kind, text === undefined ? 'undefined' : 'result');
      assert.deepEqual(decision.result, text === undefined ? undefined : JSON.parse(text));
      assert.equal(decision.text, text);
    });
  }

  it('keeps numbers as the engine wrote them, and converts by a parser', async () => {
    const { state, attached } = world();
    state.reply = '{"limit":12345678901234567890,"cost":1.0}';
    const parser = { parse: (value: unknown) => Object.keys(value as object) };
    const decision = await attached().decide('a/b', undefined, { parser });
    assert.deepEqual(decision.result, ['limit', 'cost']);
    assert.equal(decision.text, state.reply);
  });

  it('rejects with decision_result_invalid what the parser rejects', async () => {
    const { attached } = world({ onUnavailable: 'deny' });
    const parser = {
      parse: () => {
        throw new TypeError('a number is wanted');
      },
    };
    await assert.rejects(attached().decide('a/b', undefined, { parser }), { code: 'decision_result_invalid' });
  });

  for (const path of ['', '/', 'a/../b', 'a/%zz', 7 as unknown as string]) {
    it(`is not asked for at the path ${JSON.stringify(path)}`, async () => {
      const { state, attached } = world({ onUnavailable: 'deny' });
      await assert.rejects(attached().decide(path), { code: 'request_invalid' });
      assert.deepEqual(state.asked, []);
    });
  }

  it('escapes a path once, so that no text of it leads elsewhere', async () => {
    const { state, attached } = world();
    await attached().decide('a/b%20c/d?x#y');
    assert.equal(state.asked[0]?.path, 'a/b%20c/d%3Fx%23y');
  });

  it('is not asked for with an input that JSON cannot have', async () => {
    const decisions = world({ onUnavailable: 'deny' }).attached();
    const loop: { self?: unknown } = {};
    loop.self = loop;
    for (const input of [1n, loop, () => 1, Symbol('x')])
      await assert.rejects(decisions.decide('a/b', input), { code: 'request_invalid' });
  });

  it('many are one batch in order, of one path or of several', async () => {
    const { state, attached } = world();
    const decisions = attached();
    const batch = decisions.decideMany('a/b', [1, 2, 3]);
    assert.equal(state.asked.length, 3, 'asked in one turn');
    assert.equal((await batch).length, 3);
    await decisions.decideMany([{ path: 'c/d', input: { x: 1 } }, { path: 'e/f' }]);
    assert.deepEqual(
      state.asked.map(({ path, input }) => `${path} ${input}`),
      ['a/b 1', 'a/b 2', 'a/b 3', 'c/d {"x":1}', 'e/f undefined'],
    );
  });
});

describe('a decision before the client has policy and data', () => {
  it('waits for the start, the engine and the first load', async () => {
    const { state, client, decisions } = world();
    state.ready = false;
    state.filled = false;
    const decision = decisions.decide('a/b');
    decisions.attach(client);
    state.filled = true;
    decisions.stateChanged();
    assert.deepEqual(state.asked, []);
    state.ready = true;
    decisions.stateChanged();
    assert.equal((await decision).allowed, true);
  });

  it('ends with decision_not_ready after its time, with the reason', async () => {
    const { state, attached, decisions } = world();
    await assert.rejects(decisions.decide('a/b', 1, { waitMs: 1 }), {
      code: 'decision_not_ready',
      message: /not started within 1 ms/,
    });
    state.ready = false;
    await assert.rejects(attached().decide('a/b', 1, { waitMs: 0 }), {
      code: 'decision_not_ready',
      message: 'no decision now: the client has not had policy and data yet, after 0 ms (it sleeps)',
    });
  });

  it('once it had them, an engine that is away is an error at once', async () => {
    const { state, attached } = world({ waitMs: 60_000 });
    const decisions = attached();
    await decisions.decide('a/b');
    state.filled = false;
    await assert.rejects(decisions.decide('a/b'), { code: 'decision_not_ready', message: /being filled/ });
  });

  it('a stop ends the wait, and every decision after it', async () => {
    const { decisions, attached } = world();
    const waiting = decisions.decide('a/b');
    decisions.stop();
    await assert.rejects(waiting, { code: 'already_stopped' });
    await assert.rejects(attached().decide('a/b'), { code: 'already_stopped' });
  });
});

describe('without an answer', () => {
  it('error, the default, rejects with what the engine said', async () => {
    const { state, attached } = world();
    state.reply = AWAY;
    await assert.rejects(attached().decide('a/b'), AWAY);
  });

  it('deny is an answer of its own kind, with the reason', async () => {
    const { state, attached } = world({ onUnavailable: 'deny' });
    state.reply = AWAY;
    const decisions = attached();
    const { id, ...denied } = await decisions.decide('a/b');
    assert.match(id, UUID);
    assert.deepEqual(denied, {
      ...{ kind: 'unavailable', result: undefined, text: undefined, allowed: false, by: 'deny' },
      ...{ policy: undefined, position: undefined, serverCutOffSinceMs: undefined },
      ...{ stale: false, ageMs: 0, error: AWAY },
    });
    await assert.rejects(decisions.decide('a/b', 1, { onUnavailable: 'error' }), AWAY, 'a call goes before the client');
  });

  it('last is the last answer to the same path and input, marked as stale', async () => {
    const { state, attached } = world({ onUnavailable: 'last' });
    const decisions = attached();
    const fresh = await decisions.decide('a/b', { user: 'ann' });
    state.reply = AWAY;
    const stale = await decisions.decide('a/b', { user: 'ann' });
    assert.notEqual(stale.id, fresh.id);
    assert.deepEqual({ ...stale, id: '', ageMs: 0 }, { ...fresh, id: '', stale: true, error: AWAY });
    await assert.rejects(decisions.decide('a/b', { user: 'bob' }), AWAY);
    await assert.rejects(decisions.decide('a/c', { user: 'ann' }), AWAY);
  });

  it('last has a bound and an age', async () => {
    const { state, attached } = world({ onUnavailable: 'last', lastAnswers: 2 });
    const decisions = attached();
    await decisions.decideMany('a/b', [1, 2, 1, 3]);
    state.reply = AWAY;
    await assert.rejects(decisions.decide('a/b', 2), AWAY);
    assert.equal((await decisions.decide('a/b', 1)).stale, true);
    const old = world({ onUnavailable: 'last', lastMaxAgeMs: -1 });
    await old.attached().decide('a/b', 1);
    old.state.reply = AWAY;
    await assert.rejects(old.decisions.decide('a/b', 1), AWAY);
  });

  it('a function is asked, with error, question and last answer', async () => {
    const seen: unknown[] = [];
    const { state, attached } = world({
      onUnavailable: (missing) => {
        seen.push({ ...missing, last: missing.last?.result });
        return { allow: true, reason: 'read only' };
      },
    });
    const decisions = attached();
    await decisions.decide('a/b', { user: 'ann' });
    state.reply = AWAY;
    const { id, ...decision } = await decisions.decide('a/b', { user: 'ann' });
    assert.match(id, UUID);
    assert.deepEqual(decision, {
      ...{ kind: 'result', result: { allow: true, reason: 'read only' }, text: '{"allow":true,"reason":"read only"}' },
      ...{ allowed: true, by: 'fallback', policy: undefined, position: undefined, serverCutOffSinceMs: undefined },
      ...{ stale: false, ageMs: 0, error: AWAY },
    });
    assert.deepEqual(seen, [{ path: 'a/b', input: { user: 'ann' }, error: AWAY, last: true }]);
    const refuse = (): never => {
      throw new RangeError('no');
    };
    await assert.rejects(decisions.decide('a/b', 1, { onUnavailable: refuse }), RangeError);
  });

  it('an undefined decision is an answer', async () => {
    const { state, attached } = world({ onUnavailable: 'last' });
    const decisions = attached();
    await decisions.decide('a/b');
    state.reply = undefined;
    assert.equal((await decisions.decide('a/b')).kind, 'undefined');
  });

  it('is logged once, and its end with how many there were', async () => {
    const { state, attached, lines } = world({ onUnavailable: 'deny' });
    const decisions = attached();
    state.reply = AWAY;
    await decisions.decideMany('a/b', [1, 2, 3]);
    state.reply = 'false';
    await decisions.decide('a/b');
    assert.deepEqual(
      lines.map(({ msg, code, without }) => [msg, code ?? without]),
      [
        ['a decision has no answer; the next ones are counted', 'engine_unreachable'],
        ['decisions have answers again', 3],
      ],
    );
    assert.deepEqual(decisions.counts, { result: 1, undefined: 0, unavailable: 3 });
  });

  it('no policy is no hash, whatever the engine calls it', async () => {
    const { client, decisions } = world();
    decisions.attach({ ...client, engine: { decide: () => ({ text: undefined, by: 'go', policy: '' }) } });
    assert.equal((await decisions.decide('a/b')).policy, undefined);
  });

  it('a failure of another kind is decision_failed, with its cause', async () => {
    const { client, decisions } = world();
    const engine: DecisionEngine = { decide: () => Promise.reject(new TypeError('a bug')) };
    decisions.attach({ ...client, engine });
    await assert.rejects(decisions.decide('a/b'), { code: 'decision_failed', message: /a\/b: a bug/ });
  });
});

describe('onChange', () => {
  function watched() {
    const { attached, decisions, lines } = world();
    const changes: string[] = [];
    const watch = (path: string) => decisions.onChange(path, (change) => void changes.push(text(change)));
    return { decisions: attached(), watch, changes, lines };
  }
  const text = ({ path, what }: DecisionChange): string => `${path}: ${what}`;
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  it('tells once a turn what changed; a policy goes before data', async () => {
    const { decisions, watch, changes } = watched();
    watch('a/b');
    decisions.documentsChanged([['x']]);
    decisions.documentsChanged([['y']]);
    assert.deepEqual(changes, []);
    await turn();
    assert.deepEqual(changes, ['a/b: data']);
    decisions.documentsChanged([['x']]);
    decisions.policyChanged();
    await turn();
    assert.deepEqual(changes, ['a/b: data', 'a/b: policy']);
    await turn();
    assert.equal(changes.length, 2);
  });

  it('tells nothing of what changed before', async () => {
    const { decisions, watch, changes } = watched();
    decisions.policyChanged();
    decisions.documentsChanged([['x']]);
    watch('a/b');
    await turn();
    assert.deepEqual(changes, []);
    decisions.documentsChanged([['x']]);
    await turn();
    assert.deepEqual(changes, ['a/b: data']);
  });

  it('leaves out documents that the decision does not read', async () => {
    const { decisions, watch, changes } = watched();
    watch('/app/known');
    decisions.documentsChanged([['roles', 'x']]);
    await turn();
    assert.deepEqual(changes, []);
    for (const path of [['users', 'ann'], ['users'], []]) {
      decisions.documentsChanged([path]);
      await turn();
    }
    assert.equal(changes.length, 3);
    decisions.documentsChanged(Array.from({ length: 1001 }, (_, index) => ['roles', String(index)]));
    await turn();
    assert.equal(changes.length, 4, 'too many to compare count as all');
  });

  it('ends by its function, also within a callback, and with the client', async () => {
    const { decisions, watch, changes } = watched();
    let end: () => void = () => undefined;
    decisions.onChange('a/b', () => end());
    end = watch('c/d');
    decisions.policyChanged();
    await turn();
    watch('e/f');
    decisions.policyChanged();
    decisions.stop();
    await turn();
    assert.deepEqual(changes, []);
  });

  it('logs what a callback throws, and tells the others', async () => {
    const { decisions, watch, changes, lines } = watched();
    decisions.onChange('a/b', () => {
      throw new Error('at once');
    });
    decisions.onChange('a/b', () => Promise.reject(new Error('later')));
    watch('c/d');
    decisions.policyChanged();
    await turn();
    assert.deepEqual(changes, ['c/d: policy']);
    assert.deepEqual(
      lines.map(({ msg, error, path }) => [msg, error, path]),
      ['at once', 'later'].map((error) => ['a callback of onChange failed', error, 'a/b']),
    );
  });

  it('is refused for a path that names no decision', () => {
    const decisions = new Decisions({}, { log: silentLogger() });
    assert.throws(() => decisions.onChange('', () => undefined), { code: 'request_invalid' });
  });
});
