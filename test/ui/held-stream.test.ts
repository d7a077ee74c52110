import assert from 'node:assert/strict';
import { createServer, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, it } from 'node:test';
import { builtPage } from './support/built-page.js';
import { startFixture } from './support/fixture-server.js';
import { firstLine } from './support/in-page.js';
import { NO_BROWSER, testBrowser } from './support/watched-page.js';

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

const browser = testBrowser();
after(() => browser[Symbol.asyncDispose]());

it('a proxy that holds the stream back is named, and what to do; what it lets through is shown', {
  skip: NO_BROWSER,
}, async () => {
  await using server = await startFixture(await builtPage(), 'converging');
  await using proxy = await bufferingProxy(server.url);
  await using watched = await browser.open(`${proxy.url}/ui`);
  const { page } = watched;
  await page.getByText('Something between you and the server holds the stream back.').waitFor();
  assert.match(String(await page.getByRole('alert').textContent()), /Turn off its buffering for \/ui\/events\./);
  proxy.passOn();
  await page.getByRole('row').nth(2).waitFor();
  assert.match(await firstLine(page), /^Not yet: 61 of 122 hold/);
  assert.equal(await page.getByRole('alert').count(), 0);
  assert.deepEqual(watched.problems(), []);
});
