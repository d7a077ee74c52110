import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Agent } from 'undici';
import { exchange } from './http-exchange.js';
import { firstHop } from './http-rules.js';

const HOP = firstHop({ url: 'http://source.example/users' });
const REASON = new Error('not wanted any more');

describe('a request that waits for a connection which never comes', () => {
  /** Its connector hears of nothing. */
  const neverConnects = (): Agent => new Agent({ connect: () => undefined });

  it('ends when its signal aborts', async () => {
    const agent = neverConnects();
    const stop = new AbortController();
    const answer = exchange(agent, HOP, { signal: stop.signal, silenceTimeoutMs: 3_600_000 });
    stop.abort(REASON);
    await assert.rejects(answer, REASON);
    await agent.destroy();
  });

  it('is not even made when its signal has aborted before', async () => {
    const agent = neverConnects();
    const answer = exchange(agent, HOP, { signal: AbortSignal.abort(REASON), silenceTimeoutMs: 3_600_000 });
    await assert.rejects(answer, REASON);
    await agent.destroy();
  });
});
