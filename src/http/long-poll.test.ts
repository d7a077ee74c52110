import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import type { FastifyRequest } from 'fastify';
import { ANONYMOUS, type Caller } from '../auth/caller.js';
import { waitTimeout, whileCallerWaits } from './long-poll.js';

test('a timeout is told in seconds or milliseconds, and is a minute at most', () => {
  const read = (text: string): number | undefined => waitTimeout.safeParse(text).data;
  const table = { '5s': 5000, '500ms': 500, '5': 5000, '0.25': 250, '60s': 60_000, '60000ms': 60_000, '0': 0 };
  for (const [text, ms] of Object.entries(table)) assert.equal(read(text), ms, text);
  for (const text of ['61s', '60001ms', 'soon', '-1', '5 s', '1m', '', '1e3', '1.2345']) {
    assert.equal(read(text), undefined, text);
  }
});

const CALLER: Caller = { ...ANONYMOUS, subject: 's', peerType: 'datasource' };

test('a wait hears that the token of its caller has ended', async () => {
  const request = { raw: { socket: new EventEmitter() } } as unknown as FastifyRequest;
  const startMs = Date.now();
  const caller = { ...CALLER, claims: { exp: startMs / 1000 + 0.05 } };
  await whileCallerWaits(request, caller, async (gone) => {
    if (!gone.aborted) await new Promise((resolve) => gone.addEventListener('abort', resolve));
  });
  assert(Date.now() - startMs >= 40);
});

test('a wait hears that its caller is gone, and leaves nothing on the connection', async () => {
  const socket = new EventEmitter();
  const request = { raw: { socket } } as unknown as FastifyRequest;
  const aborted = await whileCallerWaits(request, CALLER, async (gone) => {
    socket.emit('close');
    return gone.aborted;
  });
  assert.equal(aborted, true);
  await assert.rejects(
    whileCallerWaits(request, CALLER, () => Promise.reject(new Error('it failed'))),
    /it failed/,
  );
  assert.equal(socket.listenerCount('close'), 0);
});
