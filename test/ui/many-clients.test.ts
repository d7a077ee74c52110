import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { serverProgram } from '../support/frozen-process.js';
import { gitRepo } from '../support/git-repo.js';
import { following } from '../support/start-client.js';
import { until } from '../support/until.js';
import { firstLine, listFigures, shownIds } from './support/in-page.js';
import { headPosition, startPeers } from './support/peers.js';
import { NO_BROWSER, testBrowser } from './support/watched-page.js';

/** A real server with 3,000 clients that speak the protocol. */

const CLIENTS = 3000;
const WITHIN = { withinMs: 120_000 };

describe('a server with 3,000 clients', { skip: NO_BROWSER }, () => {
  const browser = testBrowser();
  after(() => browser[Symbol.asyncDispose]());

  it('they take a commit: the page counts them as they do, finds one among them, and has an element for those that are seen', async (t) => {
    await using repo = await gitRepo();
    const first = await repo.commit({ 'app/main.rego': 'package app\n\nallow := true\n' });
    await using server = await serverProgram(following(repo));
    await using peers = await startPeers(server.url, {
      count: CLIENTS,
      topics: ['policy:.', 'policy_data'],
      labels: (place) => ({ app: `app-${place % 10}`, zone: place % 2 === 0 ? 'even' : 'odd' }),
    });
    const all = [...peers.ids.keys()];
    await peers.report(all, { policy_hash: first, position: await headPosition(server.url) });
    await using watched = await browser.open(`${server.url}/ui`);
    const { page } = watched;
    const says = (text: string): Promise<unknown> =>
      until(async () => (await firstLine(page)).includes(text), { ...WITHIN, what: `the page says ${text}` }).catch(
        async (cause: unknown) => {
          throw new Error(`it says "${await firstLine(page)}", not "${text}"`, { cause });
        },
      );
    await says(`Yes: all 3,000 hold ${first.slice(0, 7)}`);

    const second = await repo.commit({ 'app/main.rego': 'package app\n\nallow := false\n' });
    const short = second.slice(0, 7);
    await says(`Not yet: 0 of 3,000 hold ${short}`);
    const position = await headPosition(server.url);
    await peers.report(all.slice(0, 1500), { policy_hash: second, position });
    await says(`Not yet: 1,500 of 3,000 hold ${short}`);
    await peers.report(all.slice(1500, 2999), { policy_hash: second, position });
    await says(`Not yet: 2,999 of 3,000 hold ${short}`);

    // The one that is missing is the first of the list.
    await until(async () => (await shownIds(page))[0] === peers.ids.at(-1), { ...WITHIN, what: 'the worst is first' });
    await peers.report([2999], { policy_hash: second, position });
    await says(`Yes: all 3,000 hold ${short}`);

    const { elements, seen } = await listFigures(page);
    assert(elements <= Math.ceil(900 / 36) + 12 && seen > 10, `${elements} elements, ${seen} seen`);
    await page.keyboard.press('/');
    await page.locator('[type=search]:focus').waitFor();
    await page.keyboard.type('zone:odd app:app-7 peer-0777');
    await until(async () => (await shownIds(page)).join() === 'peer-0777', { ...WITHIN, what: 'one is found' });
    t.diagnostic(`the server has ${Math.round(server.residentBytes() / 1e6)} MB with ${CLIENTS} clients and a page`);
    assert.deepEqual(watched.problems(), []);
  });
});
