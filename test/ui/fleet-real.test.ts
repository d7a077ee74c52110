import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, describe, it } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { type StartedCommand, startCommand } from '../support/command.js';
import { freeze } from '../support/frozen-process.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { listening } from '../support/http-server.js';
import { freePort } from '../support/opa.js';
import { baseEntries, FAST, following, publishText, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedPeer, startPeer } from '../support/start-peer.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';
import { firstLine, shownIds } from './support/in-page.js';
import { headPosition, type Peers, startPeers } from './support/peers.js';
import { NO_BROWSER, testBrowser, type WatchedPage } from './support/watched-page.js';

/**
 * The page of a real server with a real fleet: clients with engines, one as a program of its own, some that only speak the protocol, and
 * one of OPAL's that says nothing.
 */

const WITHIN = { withinMs: 60_000 };
const PEERS = 12;
const TOPICS = ['policy:.', 'policy_data'];
/** Rego v1 and v0 alike, then v0 only. */
const FIRST = 'package app\n\nallow := true\n';
const SECOND = 'package app\n\nallow { input.user == "ann" }\n';
/** Takes Rego v0. */
const BOTH = { SYNC_ENGINE_V0_COMPAT: 'auto' };
const MARKUP = '<img src=x onerror=alert(1)>';

describe('the page of a real fleet', { skip: NO_BROWSER }, () => {
  const browser = testBrowser();
  const started: AsyncDisposable[] = [];
  let repo: GitRepo;
  let server: StartedServer;
  let inline: StartedClient;
  let program: StartedCommand;
  let peers: Peers;
  let opal: StartedPeer;
  let sourceAsked = 0;
  let watched: WatchedPage;
  let page: Page;

  function keep<T extends AsyncDisposable>(one: T): T {
    started.push(one);
    return one;
  }

  before(async () => {
    repo = keep(await gitRepo());
    const first = await repo.commit({ 'app/main.rego': FIRST });
    const source = createServer((_request, response) => {
      sourceAsked += 1;
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"from":"source"}');
    });
    const { url: sourceUrl } = keep(await listening(source));
    const base = baseEntries({ url: `${sourceUrl}/doc`, dst_path: '/doc' });
    server = keep(await startServer({ ...following(repo), ...base }));
    const { url: serverUrl } = server;
    const client = (id: string, env: Record<string, string>): Promise<StartedClient> =>
      startClient({
        serverUrl,
        engine: 'inline',
        env: { SYNC_CLIENT_ID: id, SYNC_CLIENT_LABELS: 'app=real,zone=a', ...env },
      });
    inline = keep(await client('inline', BOTH));
    keep(await client('strict', {}));
    program = keep(
      startCommand('client', ['run'], {
        ...FAST,
        ...BOTH,
        SYNC_SERVER_URL: serverUrl,
        SYNC_ENGINE: 'embedded',
        SYNC_POLICY_STORE_URL: `http://127.0.0.1:${await freePort()}`,
        SYNC_CLIENT_API_SERVER_PORT: '0',
        SYNC_CLIENT_ID: 'program',
        SYNC_CLIENT_LABELS: 'app=real,zone=b',
      }),
    );
    peers = keep(await startPeers(serverUrl, { count: PEERS, topics: TOPICS, labels: () => ({ app: 'peer' }) }));
    opal = keep(await startPeer(serverUrl));
    await opal.call('subscribe', { topics: TOPICS });
    await peers.report(peers.ids.keys(), { policy_hash: first, position: await headPosition(serverUrl) });
    watched = await browser.open(`${serverUrl}/ui`);
    ({ page } = watched);
    await says(`Yes: all ${PEERS + 3} that report hold ${first.slice(0, 7)}`);
  });
  after(async () => {
    await watched?.[Symbol.asyncDispose]();
    await browser[Symbol.asyncDispose]();
    for (const one of started.reverse()) await one[Symbol.asyncDispose]();
  });

  /** Waits until the first line says this. */
  async function says(text: string): Promise<void> {
    await until(async () => (await firstLine(page)).includes(text), {
      ...WITHIN,
      what: `the page says "${text}"`,
    }).catch(async (cause: unknown) => {
      throw new Error(`the page says "${await firstLine(page)}", not "${text}"`, { cause });
    });
  }
  function row(id: string): Locator {
    return page.locator(`[role=row][data-id="${id}"]`);
  }
  async function rowSays(id: string, ...texts: string[]): Promise<void> {
    await until(
      async () => {
        const shown = ((await row(id).textContent()) ?? '').replaceAll('\u00a0', ' ');
        return texts.every((text) => shown.includes(text));
      },
      { ...WITHIN, what: `the row of ${id} says ${texts.join(', ')}` },
    );
  }

  it('shows who refuses a commit, with file and line, who is frozen, who is told, and converges as they do', async () => {
    assert(program.process.pid !== undefined);
    const old = await repo.git('rev-parse', 'HEAD');
    await using frozen = await freeze(program.process.pid);
    const head = await repo.commit({ 'app/main.rego': SECOND });
    const short = head.slice(0, 7);

    await says(`Not yet: 1 of ${PEERS + 4} holds ${short}`);
    await rowSays('strict', 'Refused', '1 behind', 'main.rego:3');
    await rowSays('inline', 'Acknowledged', 'current');
    await rowSays('program', 'Not told');
    await until(async () => (await shownIds(page))[0] === 'strict', { ...WITHIN, what: 'the worst is first' });

    const policy = { wanted: head, held: old, error: null, since: Date.now() };
    await peers.report([0, 1, 2], { policy_hash: old, policy, position: await headPosition(server.url) });
    await rowSays('peer-0000', 'Told', '1 behind');
    await rowSays('peer-0005', 'Not told');
    await peers.report(peers.ids.keys(), { policy_hash: head, position: await headPosition(server.url) });
    await says(`Not yet: ${PEERS + 1} of ${PEERS + 4} hold ${short}`);
    frozen.thaw();
    await says(`No: ${PEERS + 2} of ${PEERS + 4} hold ${short} · 1 refused · 1 does not say`);
    await rowSays('program', 'Acknowledged');
    assert.match(await page.title(), new RegExp(`${PEERS + 2}/${PEERS + 4} ${short}`));
  });

  it('a client has a page: what it refuses with the lines of the file, and what it holds', async () => {
    await row('strict').click();
    await page.getByText('app/main.rego:3').first().waitFor();
    await page.getByText('allow { input.user == "ann" }').first().waitFor();
    await page.getByText('policy_data').first().waitFor();
    await page.goBack();
    await row('strict').waitFor();
  });

  it('a data update and its reason appear as they happen, names that look like markup are text', async () => {
    await page.keyboard.press('g');
    await page.keyboard.press('c');
    const entry = { url: '', topics: ['policy_data'], dst_path: '/users', data: { ann: ['admin'] } };
    await publishText(server.url, JSON.stringify({ entries: [entry], reason: MARKUP }));
    await page.getByText(MARKUP).first().waitFor();
    assert.equal(await page.locator('img').count(), 0);
    await page.getByText(MARKUP).first().click();
    await page.getByText('/users').first().waitFor();
    await page
      .getByText(/inline/)
      .first()
      .waitFor();
    await inline.holds('/users', { ann: ['admin'] });
  });

  it('a client does what it is asked to: it fetches its data again, and logs with another level', async () => {
    const before = sourceAsked;
    await page.goto(`${server.url}/ui#/clients/program`);
    const act = async (name: RegExp): Promise<void> => {
      await page.getByRole('button', { name }).first().click();
      await page.getByRole('dialog').getByRole('button').last().click();
    };
    await act(/^Refresh/);
    await until(() => sourceAsked > before, { ...WITHIN, what: 'the source is asked again' });
    await act(/^Log/);
    await page.getByRole('button', { name: 'Log: debug' }).waitFor();
    await page.getByText('/doc').first().waitFor();
  });

  it('has the documents, the commits with what differs, and this server', async () => {
    for (const [at, texts] of [
      ['data?path=/users', ['/users', 'inline']],
      ['policy?tab=diff', ['app/main.rego', 'allow { input.user == "ann" }', 'allow := true']],
      ['policy?tab=files', ['main.rego']],
      ['instances', ['this page']],
    ] as const) {
      await page.goto(`${server.url}/ui#/${at}`);
      for (const text of texts) await page.getByText(text).first().waitFor();
      await watched.settled();
      assert.deepEqual(await watched.axe(), [], at);
    }
  });

  it('says nothing in the console, and asks nobody else', () => {
    assert.deepEqual(watched.problems(), []);
  });
});
