import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { WebSocket } from 'ws';
import type { Work } from '../support/counted-work.js';
import { postJson } from '../support/http.js';
import { installedPackage } from '../support/installed-package.js';
import { until } from '../support/until.js';

/** What the two ways cost that are gone most often, counted: times are noise on a machine that has other work. */

const PROGRAM = new URL('hot-ways-program.js', import.meta.url);
/** What happens beside it now and then adds to a count: the least of some rounds is what the way itself takes. */
const ROUNDS = 3;
const UPDATES = 20;
const DECISIONS = 200;
/** Characters of each document. */
const DOCUMENT = 10_000;

/** Each guard is what the way takes today, for one update or one decision: more is a step that somebody has to want. */
const OF_AN_UPDATE = {
  /** The envelope, without the document, which is checked as bytes and never parsed. */
  parsed: { calls: 1, size: 100 },
  /** Names and numbers around the document. */
  stringified: { calls: 48, size: 700 },
  /** The document once. */
  copied: { calls: 3, size: 1.05 * DOCUMENT },
  /** To the thread of the log and back. */
  posted: { calls: 2, size: 0 },
} as const;

describe('the work of a publish', () => {
  it('is that of one text, whatever there is: one write more for each subscriber, nothing more for each document', async () => {
    await using program = await startProgram('publish');
    const few = await publishes(program, 4);
    const many = await publishes(program, 64);
    await putDocuments(program.url, 2_000);
    const beside = await publishes(program, 4);
    for (const [kind, most] of Object.entries(OF_AN_UPDATE)) {
      const own = (work: Work): Work[keyof Work] => work[kind as keyof Work];
      assert(own(few).calls <= most.calls * UPDATES, `${kind}: ${own(few).calls / UPDATES} calls`);
      assert(own(few).size <= most.size * UPDATES, `${kind}: ${own(few).size / UPDATES} bytes`);
      assert.equal(own(many).calls, own(few).calls, `${kind}, 64 subscribers`);
      assert.equal(own(beside).calls, own(few).calls, `${kind}, beside 2,000 documents`);
    }
    assert.equal(few.written.calls, (4 + 1) * UPDATES, 'one for each subscriber, one for the publisher');
    assert.equal(many.written.calls, (64 + 1) * UPDATES);
    assert.equal(beside.written.calls, few.written.calls);
  });
});

describe('the work of a decision', () => {
  it('is to write the input once and to wake the evaluator: nothing is parsed, copied, or sent', async () => {
    await using program = await startProgram('decide');
    const work = await leastOf(() => program.work(DECISIONS));
    const none = { calls: 0, size: 0 };
    assert.deepEqual(
      { ...work, stringified: work.stringified.calls },
      {
        ...{ parsed: none, copied: none, written: none },
        stringified: DECISIONS,
        posted: { calls: 2 * DECISIONS, size: 0 },
      },
    );
  });
});

async function putDocuments(serverUrl: string, count: number): Promise<void> {
  const entries = Array.from({ length: count }, (_, at) => ({
    ...{ url: '', topics: ['others'], dst_path: `/others/${at}` },
    data: { at },
  }));
  const answer = await postJson(`${serverUrl}/data/config`, { entries, reason: 'test' });
  assert.equal(answer.status, 200, answer.text);
}

/** Publishes to so many subscribers; each publish ends when all have it. */
async function publishes(program: Program, subscribers: number): Promise<Work> {
  let received = 0;
  const sockets = await Promise.all(
    Array.from({ length: subscribers }, () => subscriber(program.url, () => (received += 1))),
  );
  const data = 'x'.repeat(DOCUMENT);
  const work = await leastOf(async () => {
    await program.work();
    for (let made = 0; made < UPDATES; made++) {
      received = 0;
      const entries = [{ url: '', topics: ['policy_data'], dst_path: '/one', data }];
      const answer = await postJson(`${program.url}/data/config`, { entries, reason: 'test' });
      assert.equal(answer.status, 200, answer.text);
      await until(() => received === subscribers, { withinMs: 20_000, what: 'all have it' });
    }
    return await program.work();
  });
  for (const socket of sockets) socket.terminate();
  return work;
}

async function subscriber(serverUrl: string, onUpdate: () => void): Promise<WebSocket> {
  const socket = new WebSocket(`${serverUrl.replace(/^http/, 'ws')}/ws`, { perMessageDeflate: false });
  let isSubscribed = false;
  socket.on('message', () => {
    if (isSubscribed) onUpdate();
    isSubscribed = true;
  });
  await once(socket, 'open');
  const call = { method: 'subscribe', arguments: { topics: ['policy_data'] }, call_id: 'first' };
  socket.send(JSON.stringify({ request: call, response: null }));
  await until(() => isSubscribed, { withinMs: 20_000, what: 'the subscription is answered' });
  return socket;
}

interface Program extends AsyncDisposable {
  readonly url: string;
  /** What was done since this was called last; `count`: does so many first. */
  work(count?: number): Promise<Work>;
}

async function startProgram(way: 'publish' | 'decide'): Promise<Program> {
  installedPackage(); // what it runs
  const child = fork(PROGRAM, [way], { stdio: 'inherit' });
  const answer = async (): Promise<Record<string, unknown>> => {
    const [message] = await once(child, 'message', { signal: AbortSignal.timeout(60_000) });
    return message as Record<string, unknown>;
  };
  const { url } = await answer();
  return {
    url: String(url),
    work: async (count = 0) => {
      const told = answer();
      child.send(count);
      return (await told).work as Work;
    },
    [Symbol.asyncDispose]: async () => {
      const ended = once(child, 'exit');
      child.kill();
      await ended;
    },
  };
}

async function leastOf(round: () => Promise<Work>): Promise<Work> {
  const rounds: Work[] = [];
  for (let made = 0; made < ROUNDS; made++) rounds.push(await round());
  const kinds = Object.keys(rounds[0] ?? {}) as (keyof Work)[];
  const least = (kind: keyof Work, what: 'calls' | 'size'): number => Math.min(...rounds.map((one) => one[kind][what]));
  return Object.fromEntries(
    kinds.map((kind) => [kind, { calls: least(kind, 'calls'), size: least(kind, 'size') }]),
  ) as unknown as Work;
}
