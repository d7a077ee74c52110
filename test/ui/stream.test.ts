import assert from 'node:assert/strict';
import { createServer, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, describe, it } from 'node:test';
import { until } from '../support/until.js';
import { builtPage } from './support/built-page.js';
import { startFixture } from './support/fixture-server.js';
import { firstLine } from './support/in-page.js';
import { IN_PAGE_MS, NO_BROWSER, testBrowser } from './support/watched-page.js';

/** A stream that does not come as it should, in a real browser; what the page waits is time that the tests let pass. */

const WITHIN = { withinMs: IN_PAGE_MS };
/** How long a stream may say nothing at first. */
const FIRST_MS = 10_000;
/** What a page waits before it asks again, at first and then: a server that starts or drains must not be asked all the time. */
const WAITS_MS = [1_000, 2_000] as const;
const STEP_MS = 100;
/** How far ahead the time of a page stands still: later than now when it is told, sooner than it misses the stream. */
const LEAD_MS = 10_000;

/** A proxy that collects what it passes on, until it is told not to. */
async function bufferingProxy(to: string): Promise<AsyncDisposable & { url: string; passOn(): void }> {
  const held = new Map<ServerResponse, Buffer[]>();
  let isBuffering = true;
  const server = createServer((asked, response) => {
    const passed = request(`${to}${asked.url}`, { method: asked.method, headers: asked.headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      if (!isBuffering || !answer.headers['content-type']?.includes('event-stream')) return answer.pipe(response);
      response.flushHeaders();
      const chunks: Buffer[] = [];
      held.set(response, chunks);
      answer.on('data', (chunk: Buffer) => (isBuffering ? chunks.push(chunk) : response.write(chunk)));
      return answer.on('end', () => response.end());
    });
    passed.on('error', () => response.destroy());
    response.on('close', () => passed.destroy());
    asked.pipe(passed);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    passOn() {
      isBuffering = false;
      for (const [response, chunks] of held) response.write(Buffer.concat(chunks));
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}

describe('a stream', { skip: NO_BROWSER }, () => {
  const browser = testBrowser();
  after(() => browser[Symbol.asyncDispose]());

  it('that a proxy holds back: the proxy is named, and what to do; what it lets through is shown', async () => {
    await using server = await startFixture(await builtPage(), 'converging');
    await using proxy = await bufferingProxy(server.url);
    await using watched = await browser.open(`${proxy.url}/ui`, { clock: true });
    const { page } = watched;
    const isAsked = (): boolean => server.asked.includes('GET /ui/events');
    await until(isAsked, { ...WITHIN, what: 'the stream is asked for' });
    await page.clock.fastForward(FIRST_MS);
    await page.getByText('Something between you and the server holds the stream back.').waitFor();
    assert.match(String(await page.getByRole('alert').textContent()), /Turn off its buffering for \/ui\/events\./);
    proxy.passOn();
    await page.getByRole('row').nth(2).waitFor();
    assert.match(await firstLine(page), /^Not yet: 61 of 122 hold/);
    assert.equal(await page.getByRole('alert').count(), 0);
    assert.deepEqual(watched.problems(), []);
  });

  it('that the server refuses is asked for again after waits, and the page goes on', async () => {
    await using server = await startFixture(await builtPage(), 'converging');
    await using watched = await browser.open(`${server.url}/ui`, { expects: ['503', 'ERR_'], clock: true });
    const { page } = watched;
    await page.getByRole('row').nth(2).waitFor();
    await page.clock.pauseAt(Date.now() + LEAD_MS);
    const before = server.asked.length;
    const asks = (): number => server.asked.slice(before).filter((one) => one.startsWith('GET /ui/events')).length;
    /** Lets time pass until the page has asked so often; how much passed. */
    const passedUntil = async (count: number): Promise<number> => {
      let passedMs = 0;
      const isAsked = async (): Promise<boolean> => {
        if (asks() >= count) return true;
        await page.clock.runFor(STEP_MS);
        passedMs += STEP_MS;
        return false;
      };
      await until(isAsked, { ...WITHIN, what: `the stream is asked for ${count} times` });
      return passedMs;
    };
    server.cut();
    await until(() => asks() >= 1, { ...WITHIN, what: 'the browser asks for the stream again' });
    for (const [index, waitMs] of WAITS_MS.entries()) {
      const passedMs = await passedUntil(index + 2);
      assert(passedMs >= waitMs, `${passedMs} ms before it is asked once more`);
    }
    server.restore();
    await page.clock.fastForward(FIRST_MS);
    await page.clock.resume();
    await page.getByText('Live', { exact: true }).waitFor();
    assert.deepEqual(watched.problems(), []);
  });
});
