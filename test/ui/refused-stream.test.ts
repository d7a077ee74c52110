import assert from 'node:assert/strict';
import { it } from 'node:test';
import { until } from '../support/until.js';
import { builtPage } from './support/built-page.js';
import { startFixture } from './support/fixture-server.js';
import { NO_BROWSER, testBrowser } from './support/watched-page.js';

/** What a page waits before it asks again, at first and then: a server that starts or drains must not be asked all the time. */
const WAITS_MS = 1_000 + 2_000;

it('a server that refuses the stream is asked again after waits, and the page goes on', {
  skip: NO_BROWSER,
}, async () => {
  await using server = await startFixture(await builtPage(), 'converging');
  await using browser = testBrowser();
  await using watched = await browser.open(`${server.url}/ui`, { expects: ['503', 'ERR_'] });
  await watched.page.getByRole('row').nth(2).waitFor();
  const before = server.asked.length;
  const asks = (): number => server.asked.slice(before).filter((one) => one.startsWith('GET /ui/events')).length;
  server.cut();
  await until(() => asks() >= 1, { withinMs: 20_000, what: 'the stream is asked for again' });
  const refusedAt = performance.now();
  await until(() => asks() >= 3, { withinMs: 20_000, what: 'it is asked for twice more' });
  assert(performance.now() - refusedAt >= WAITS_MS * 0.9, 'there was a wait before each');
  server.restore();
  await watched.page.getByText('Live', { exact: true }).waitFor();
  assert.deepEqual(watched.problems(), []);
});
