import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, describe, it, test } from 'node:test';
import { WebSocket } from 'ws';
import { linesThatSay, serverProgram } from '../support/frozen-process.js';
import { field, postJson, request } from '../support/http.js';
import { type StartedClient, startClient } from '../support/start-client.js';
import { startPeer } from '../support/start-peer.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { together } from '../support/together.js';
import { until } from '../support/until.js';

const UPDATES = 200;
const OTHERS = 12;
const NUMBERS = Array.from({ length: UPDATES }, (_, index) => index + 1);

/** A subscriber that notes the numbers of the updates that it gets, and can stop reading. */
interface Listener extends AsyncDisposable {
  readonly socket: WebSocket;
  /** In the order of their arrival. */
  readonly numbers: readonly number[];
}

/** Subscribes with our extensions or as an OPAL client; with `answers` it answers each notification as OPAL clients do. */
async function listener(serverUrl: string, { extended = false, answers = false } = {}): Promise<Listener> {
  const headers = extended ? { 'x-sync-protocol': '1' } : {};
  const socket = new WebSocket(`${serverUrl.replace(/^http/, 'ws')}/ws`, { headers });
  const numbers: number[] = [];
  let isSubscribed = false;
  socket.on('error', () => undefined); // shows as the end of the connection
  socket.on('message', (data: Buffer) => {
    // The ends of a frame: a document in between would be parsed many times over.
    const text = `${data.toString('latin1', 0, 600)} ${data.toString('latin1', Math.max(0, data.length - 600))}`;
    const number = /"id": ?"update-(\d+)"/.exec(text)?.[1];
    if (number === undefined) isSubscribed = true;
    else numbers.push(Number(number));
    const call = /"call_id": ?"([^"]+)"/.exec(text)?.[1];
    if (answers && number !== undefined)
      socket.send(`{"request": null, "response": {"result": null, "result_type": "null", "call_id": "${call}"}}`);
  });
  await once(socket, 'open');
  const call = { method: 'subscribe', arguments: { topics: ['policy_data'] }, call_id: 'first' };
  socket.send(JSON.stringify({ request: call, response: null }));
  await until(() => isSubscribed, { withinMs: 20_000, what: 'the subscription is answered' });
  return {
    socket,
    numbers,
    [Symbol.asyncDispose]: async () => {
      if (socket.readyState === WebSocket.CLOSED) return;
      const closed = once(socket, 'close');
      socket.terminate();
      await closed;
    },
  };
}

/** Publishes update `number` at a path of its own; answers to how many it was handed. */
async function publishNumber(serverUrl: string, number: number, data: unknown): Promise<number> {
  const entries = [{ url: '', topics: ['policy_data'], dst_path: `/updates/${number}`, data }];
  const answer = await postJson(`${serverUrl}/data/config`, { id: `update-${number}`, entries, reason: 'test' });
  assert.equal(answer.status, 200, answer.text);
  return Number(field(answer.json, 'subscribers'));
}

/** Those that read, and one that stops to, half of them OPAL clients. */
async function startListeners(serverUrl: string) {
  const others = together<Listener>();
  for (let index = 0; index < OTHERS; index++) others.add(await listener(serverUrl, { extended: index % 2 === 0 }));
  const stuck = others.add(await listener(serverUrl, { extended: true }));
  stuck.socket.pause();
  return {
    reading: others.all.filter((one) => one !== stuck),
    stuck,
    [Symbol.asyncDispose]: others[Symbol.asyncDispose],
  };
}

async function allHaveAll(reading: readonly Listener[]): Promise<void> {
  await until(() => reading.every(({ numbers }) => numbers.length >= UPDATES), {
    withinMs: 60_000,
    what: 'all that read have all updates',
  });
  for (const { numbers } of reading) assert.deepEqual(numbers, NUMBERS);
}

test('a subscriber that stops reading delays no other while it is connected, and finds everything when it reads on', async () => {
  await using server = await serverProgram();
  await using listeners = await startListeners(server.url);
  const { reading, stuck } = listeners;
  for (const number of NUMBERS) assert.equal(await publishNumber(server.url, number, number), OTHERS + 1);
  await allHaveAll(reading);
  assert.deepEqual(stuck.numbers, []);
  assert.deepEqual(linesThatSay(server.log(), 'subscriber dropped'), [], 'it is still connected');
  stuck.socket.resume();
  await allHaveAll([stuck]);
});

test('a subscriber that leaves too much unread is cut off, the others get every update in order, and it catches up', async (t) => {
  await using server = await serverProgram({ SYNC_SUBSCRIBER_BUFFER_BYTES: '65536' });
  await using listeners = await startListeners(server.url);
  const { reading, stuck } = listeners;
  const pad = 'x'.repeat(48 * 1024);
  const handedTo: number[] = [];
  for (const number of NUMBERS) handedTo.push(await publishNumber(server.url, number, { number, pad }));
  await allHaveAll(reading);
  const dropped = linesThatSay(server.log(), 'subscriber dropped');
  assert.deepEqual(
    dropped.map((line) => field(line, 'reason')),
    ['does not read what it is sent'],
  );
  assert.equal(handedTo.at(0), OTHERS + 1);
  assert.equal(handedTo.at(-1), OTHERS);
  t.diagnostic(`cut off after ${handedTo.indexOf(OTHERS)} of ${UPDATES} updates`);

  const closed = once(stuck.socket, 'close');
  stuck.socket.resume();
  await closed;
  assert.deepEqual(stuck.numbers, NUMBERS.slice(0, stuck.numbers.length), 'what it got is whole and in order');
  assert(stuck.numbers.length < UPDATES);
  await using back = await listener(server.url, { extended: true });
  const config = await request(`${server.url}/data/config`);
  const entries = field(config.json, 'entries');
  assert(Array.isArray(entries));
  assert.deepEqual(
    entries.map((entry) => field(entry, 'data', 'number')),
    NUMBERS,
  );
  await publishNumber(server.url, UPDATES + 1, 'after');
  await until(() => back.numbers.length > 0, { withinMs: 20_000, what: 'it hears of the next one' });
});

describe('beside a client of ours', () => {
  let server: StartedServer;
  let client: StartedClient;
  before(async () => {
    server = await startServer();
    client = await startClient({ serverUrl: server.url, env: { SYNC_POLICY_UPDATER_ENABLED: 'false' } });
    await client.healthy();
  });
  after(async () => {
    await client?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  it('a subscriber that never answers a notification delays nobody, and nobody waits for it', async () => {
    await using answering = await listener(server.url, { answers: true });
    await using silent = await listener(server.url);
    for (const number of NUMBERS) assert.equal(await publishNumber(server.url, number, number), 3);
    await allHaveAll([answering, silent]);
    const entries = [{ url: '', topics: ['policy_data'], dst_path: '/last', data: 1 }];
    const applied = await postJson(`${server.url}/data/config?wait=applied&timeout=15s`, { entries, reason: '' });
    assert.equal(applied.status, 200, applied.text);
    assert.equal(field(applied.json, 'applied'), 1);
    await client.holds('/last', 1);
    await client.holds(`/updates/${UPDATES}`, UPDATES);
  });

  it('a client of ours that is connected and never says what it holds keeps only those waiting who ask for it', async () => {
    await using mute = await startPeer(server.url, { 'x-sync-protocol': '2' });
    const opened = await mute.call('subscribe', { topics: ['policy_data'], client_id: 'mute' });
    assert.equal(field(opened, 'accepted'), true);
    const entries = [{ url: '', topics: ['policy_data'], dst_path: '/waited', data: 1 }];
    const leaving = new AbortController();
    let isWaiting = true;
    const waiting = request(`${server.url}/data/config?wait=applied&timeout=60s`, {
      ...{
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ entries, reason: '' }),
      },
      signal: leaving.signal,
    })
      .catch(() => undefined) // this test ends it
      .finally(() => {
        isWaiting = false;
      });
    await client.holds('/waited', 1);
    const later = Array.from({ length: 20 }, (_, index) => 1001 + index);
    for (const number of later) await publishNumber(server.url, number, number);
    await client.holds('/updates/1020', 1020);
    assert(isWaiting, 'all of it went on meanwhile');
    leaving.abort();
    await waiting;
    const late = await until(
      async () => {
        const answer = await postJson(`${server.url}/data/config?wait=applied&timeout=500ms`, { entries, reason: '' });
        assert.equal(answer.status, 202);
        return field(answer.json, 'applied') === 1 && answer;
      },
      { withinMs: 20_000, what: 'the client has it within the time' },
    );
    assert.equal(field(late.json, 'lagging', 0, 'client_id'), 'mute');
  });
});
