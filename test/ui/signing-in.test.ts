import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { bearer, keyPair, tokenOf, withKeys } from '../support/auth.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { postJson } from '../support/http.js';
import { following } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';
import { firstLine, shownIds } from './support/in-page.js';
import { headPosition, type Peers, startPeers } from './support/peers.js';
import { NO_BROWSER, testBrowser, type WatchedPage } from './support/watched-page.js';

/** Tokens at the page of a real server: what each sees, and until when. */

const WITHIN = { withinMs: 30_000 };
/** The browser says by itself that a request was refused. */
const REFUSED = ['(/ui/session)', '(/ui/events)'];
/** What the token of the publisher is called. */
const PUBLISHER = 'billing <b>&amp;';

describe('signing in', { skip: NO_BROWSER }, () => {
  const browser = testBrowser();
  let repo: GitRepo;
  let server: StartedServer;
  let peers: Peers;
  let watched: WatchedPage;
  /** Another browser, with a session that ends while the tests go on. */
  let ending: WatchedPage;

  before(async () => {
    repo = await gitRepo();
    const head = await repo.commit({ 'app/main.rego': 'package app\n\nallow := true\n' });
    server = await startServer({ ...withKeys(keyPair()), ...following(repo) });
    const [token, publisher] = await Promise.all([
      tokenOf(server.url, { type: 'client' }),
      tokenOf(server.url, { type: 'datasource', id: PUBLISHER }),
    ]);
    peers = await startPeers(server.url, {
      count: 6,
      topics: (place) => ['policy:.', place < 2 ? 'orders' : 'stock'],
      token,
    });
    for (const [topic, path] of [
      ['orders', '/orders'],
      ['stock', '/stock'],
    ]) {
      const entries = [{ url: '', topics: [topic], dst_path: path, data: { of: topic } }];
      const body = { entries, reason: `news of ${topic}` };
      assert.equal((await postJson(`${server.url}/data/config`, body, bearer(publisher))).status, 200);
    }
    const position = await headPosition(server.url, bearer(publisher));
    await peers.report(peers.ids.keys(), { policy_hash: head, position });
    watched = await browser.open(`${server.url}/ui`, { expects: REFUSED });
    ending = await browser.open(`${server.url}/ui#/changes`, { expects: REFUSED });
    await signInWith(await tokenOf(server.url, { type: 'listener', ttl: 8 }), ending);
    await ending.page.getByText('/stock').first().waitFor();
  });
  after(async () => {
    await ending?.[Symbol.asyncDispose]();
    await watched?.[Symbol.asyncDispose]();
    await browser[Symbol.asyncDispose]();
    await peers?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
    await repo?.[Symbol.asyncDispose]();
  });

  async function signInWith(token: string, { page } = watched): Promise<void> {
    await page.getByLabel('Token').fill(token);
    await page.keyboard.press('Enter');
  }
  async function says(text: string): Promise<void> {
    await until(async () => (await firstLine(watched.page)).includes(text), { ...WITHIN, what: `it says ${text}` });
  }
  async function signOut(): Promise<void> {
    const { page } = watched;
    await page.getByRole('button', { name: /sign out/i }).click();
    await page.getByLabel('Token').waitFor();
  }

  it('a token that is none, or of the wrong kind, is refused with what to do, and stays to be repaired', async () => {
    const { page } = watched;
    const client = await tokenOf(server.url, { type: 'client' });
    for (const [token, why] of [
      ['no token at all', /token/i],
      [client, /listener|datasource/],
    ] as const) {
      await signInWith(token);
      const alert = page.getByRole('alert');
      await until(async () => why.test((await alert.textContent()) ?? ''), { ...WITHIN, what: `it says ${why}` });
      assert.equal(await page.getByLabel('Token').inputValue(), token);
      assert.equal(await page.getByLabel('Token').getAttribute('aria-invalid'), 'true');
    }
    assert.deepEqual(await watched.axe(), []);
  });

  it('a listener sees everything and may do nothing: actions are there, off, with the reason', async () => {
    const { page } = watched;
    await signInWith(await tokenOf(server.url, { type: 'listener' }));
    await says('all 6 hold');
    await page.keyboard.press('g');
    await page.keyboard.press('c');
    await page.getByText('/stock').first().waitFor();
    assert.equal(await page.getByText('news of stock').count(), 0, 'reasons are for publishers');
    await page.goBack();
    await signOut();
  });

  it('a datasource sees reasons, too', async () => {
    const { page } = watched;
    await signInWith(await tokenOf(server.url, { type: 'datasource' }));
    await says('all 6 hold');
    await page.keyboard.press('g');
    await page.keyboard.press('c');
    await page.getByText('news of stock').first().waitFor();
    await page.goBack();
    await signOut();
    await page.goto(`${server.url}/ui#/changes`);
    await page.getByLabel('Token').waitFor();
    assert.equal(await page.getByText('news of stock').count(), 0, 'nothing is left after signing out');
  });

  it('who published is called as the token is, as text: in lists, at the change, at the document, and in the search', async () => {
    const { page } = watched;
    await page.goto(`${server.url}/ui#/changes?q=${encodeURIComponent('billing <b>')}`);
    await signInWith(await tokenOf(server.url, { type: 'datasource' }));
    const rows = page.locator('main li a[href^="#/changes/"]');
    await until(async () => (await rows.count()) === 2, {
      ...WITHIN,
      what: 'the search finds the two by their publisher',
    });
    assert((await rows.first().textContent())?.includes(PUBLISHER), 'a row of the list');
    await rows.first().click();
    await page.getByRole('link', { name: 'Changes' }).last().waitFor();
    await page.getByText(PUBLISHER).first().waitFor();
    await page.goto(`${server.url}/ui#/data?path=/stock`);
    await page.getByText('Publisher', { exact: true }).waitFor();
    await page.getByText(PUBLISHER, { exact: true }).first().waitFor();
    await page.goto(`${server.url}/ui#/changes`);
    await rows.first().waitFor();
    await signOut();
  });

  it('a token that is limited to topics sees its part, and the page says so', async () => {
    const { page } = watched;
    await page.goto(`${server.url}/ui#/fleet`);
    await signInWith(await tokenOf(server.url, { type: 'listener', claims: { permitted_topics: ['orders'] } }));
    await page.getByText('You see a part').waitFor();
    await until(async () => (await shownIds(page)).toSorted().join() === 'peer-0000,peer-0001', {
      ...WITHIN,
      what: `two are seen: ${(await shownIds(page)).join()}`,
    });
    await page.keyboard.press('g');
    await page.keyboard.press('c');
    await page.getByText('/orders').first().waitFor();
    assert.equal(await page.getByText('/stock').count(), 0);
    await page.goBack();
    await signOut();
  });

  it('a session ends with its token: the page says so, shows nothing any more, and goes on where it was with a new one', async () => {
    const { page } = ending;
    await page.getByText(/session has ended/).waitFor();
    assert.equal(await page.getByText('/stock').count(), 0);
    await signInWith(await tokenOf(server.url, { type: 'listener' }), ending);
    await page.getByText('/stock').first().waitFor();
    assert.equal(await page.evaluate('location.hash'), '#/changes');
    assert.deepEqual([...ending.problems(), ...watched.problems()], []);
  });
});
