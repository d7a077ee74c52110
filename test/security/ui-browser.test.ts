import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, describe, it } from 'node:test';
import type { Page } from 'playwright-core';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { field, request } from '../support/http.js';
import { type ListeningServer, listening } from '../support/http-server.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';
import { builtPage } from '../ui/support/built-page.js';
import { startFixture } from '../ui/support/fixture-server.js';
import { NO_BROWSER, testBrowser, type WatchedPage } from '../ui/support/watched-page.js';

/** What pages of others, and names of others, can do to the live page in a real browser in which somebody is signed in. */

/** Problems of the page that these tests are not about. */
const ANY = [''];
const WITHIN_MS = 20_000;

describe('another page in the browser of somebody who is signed in', { skip: NO_BROWSER }, () => {
  const browser = testBrowser();
  let server: StartedServer;
  let other: ListeningServer;
  let watched: WatchedPage;
  let token: string;

  before(async () => {
    // Even where pages of all origins may call.
    server = await startServer({ ...withKeys(), SYNC_ALLOWED_ORIGINS: '*' });
    token = await tokenOf(server.url, { type: 'datasource' });
    other = await listening(
      createServer((_request, response) => {
        response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>Another page</title>');
      }),
    );
    watched = await browser.open(`${server.url}/ui`, { expects: ANY });
    const { page } = watched;
    await page.getByLabel('Token').fill(token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByLabel('Token').waitFor({ state: 'detached' });
  });
  after(async () => {
    await watched?.[Symbol.asyncDispose]();
    await browser[Symbol.asyncDispose]();
    await other?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  /** Opens the other page in the same browser: of the same site at another port, or of another site. */
  async function openOther(site: 'same site' | 'another site'): Promise<Page> {
    const page = await watched.page.context().newPage();
    await page.goto(site === 'same site' ? other.url : other.url.replace('127.0.0.1', 'localhost'));
    return page;
  }

  it('the token is nowhere in the page, its storage or its address, and no script sees the cookie', async () => {
    const { page } = watched;
    const held = String(
      await page.evaluate(
        `JSON.stringify([document.cookie, document.documentElement.outerHTML, location.href, history.state,
          { ...localStorage }, { ...sessionStorage }, [...document.querySelectorAll('input')].map((one) => one.value)])`,
      ),
    );
    assert(!held.includes(token.slice(-20)));
    assert.doesNotMatch(held, /policysync=/);
    const cookies = await page.context().cookies(server.url);
    assert.deepEqual(
      cookies.map(({ name, httpOnly, sameSite, path }) => ({ name, httpOnly, sameSite, path })),
      [{ name: 'policysync', httpOnly: true, sameSite: 'Strict', path: '/' }],
    );
    assert.equal(
      field((await page.evaluate(`fetch('/ui/session').then((r) => r.json())`)) as object, 'role'),
      'datasource',
    );
  });

  for (const site of ['same site', 'another site'] as const) {
    it(`of ${site}: reads nothing, changes nothing, signs nobody in or out`, async () => {
      const page = await openOther(site);
      const seen: string[] = [];
      page.on('response', (response) => {
        const { pathname, origin } = new URL(response.url());
        if (origin === server.url) seen.push(`${response.request().method()} ${pathname} ${response.status()}`);
      });
      const headOf = async (): Promise<unknown> =>
        field((await request(`${server.url}/data/log`, { headers: bearer(token) })).json, 'head');
      const before = [await headOf(), await page.context().cookies(server.url)];
      const update = JSON.stringify({ entries: [{ url: '', topics: ['policy_data'], dst_path: '/x', data: 1 }] });
      const outcomes = await page.evaluate(
        `(async ({ url, update, token }) => {
          const tries = {
            read: () => fetch(url + '/clients', { credentials: 'include' }),
            publish: () => fetch(url + '/data/config', { method: 'POST', credentials: 'include', body: update,
              headers: { 'content-type': 'application/json', 'x-sync-ui': '1' } }),
            'publish without a preflight': () => fetch(url + '/data/config', { method: 'POST', credentials: 'include',
              mode: 'no-cors', body: update }),
            'sign in': () => fetch(url + '/ui/session', { method: 'POST', credentials: 'include',
              body: JSON.stringify({ token }), headers: { 'content-type': 'application/json', 'x-sync-ui': '1' } }),
            'sign out': () => fetch(url + '/ui/session', { method: 'DELETE', credentials: 'include',
              headers: { 'x-sync-ui': '1' } }),
          };
          const outcomes = {};
          for (const [name, run] of Object.entries(tries)) outcomes[name] = await run().then((r) => r.status, () => 'refused');
          return outcomes;
        })(${JSON.stringify({ url: server.url, update, token })})`,
      );
      // 401: the browser did not send the cookie; 0: the page may not know; refused: it may not even ask.
      for (const [what, outcome] of Object.entries(outcomes as Record<string, unknown>))
        assert([401, 403, 0, 'refused'].includes(outcome as number), `${what}: ${String(outcome)}`);
      assert(seen.length >= 5, seen.join(', '));
      assert.deepEqual(
        seen.filter((one) => /^(?!OPTIONS).* 2\d\d$/.test(one)),
        [],
      );
      assert.deepEqual([await headOf(), await page.context().cookies(server.url)], before);
      await page.close();
    });

    it(`of ${site}: shows the page in no frame, and sends no form`, async () => {
      const page = await openOther(site);
      await page.evaluate(
        `document.body.innerHTML = '<iframe name="f" src="${server.url}/ui"></iframe>' +
          '<form method="post" enctype="text/plain" target="g" action="${server.url}/ui/session">' +
          '<input name=\\'{"token":"x","a":"\\' value=\\'"}\\'></form><iframe name="g"></iframe>'`,
      );
      await until(async () => page.frame('f')?.url().startsWith('chrome-error:') ?? false, {
        withinMs: WITHIN_MS,
        what: 'the browser refuses the frame',
      });
      const answered = page.waitForResponse((response) => response.url() === `${server.url}/ui/session`);
      await page.evaluate(`document.querySelector('form').submit()`);
      assert.equal((await answered).status(), 403);
      await page.close();
    });

    it(`of ${site}: opens no socket by the session`, async () => {
      const page = await openOther(site);
      const ended = await page.evaluate(
        `new Promise((done) => {
          const socket = new WebSocket('${server.url.replace('http', 'ws')}/ws');
          socket.onopen = () => done('open');
          socket.onerror = () => done('refused');
        })`,
      );
      assert.equal(ended, 'refused');
      await page.close();
    });
  }
});

/** Names that would be markup, script, or an address if anything but text were made of them. */
const HOSTILE = [
  '<img src=x onerror=alert(1)>',
  '"><script>alert(1)</script>',
  'javascript:alert(1)',
  "'-alert(1)-'",
  '../../clients/x?y#z',
  '{{constructor.constructor("alert(1)")()}}',
];

describe('what clients, publishers and commits are called', { skip: NO_BROWSER }, () => {
  const browser = testBrowser();
  after(() => browser[Symbol.asyncDispose]());

  it('are text on every page', async () => {
    await using server = await startFixture(await builtPage(), 'converging');
    await using watched = await browser.open(`${server.url}/ui`);
    const { page } = watched;
    await page.getByRole('row').nth(2).waitFor();
    const fleet = server.fleet();
    const [row] = fleet?.clients ?? [];
    const [change] = fleet?.changes ?? [];
    assert(row !== undefined && change !== undefined);
    const clients = HOSTILE.map((name, index) => ({
      ...row,
      ...{ id: name, labels: { app: name, [name]: 'x' }, address: name, instance: name, engine: name, topics: [name] },
      policy: { ...row.policy, state: 'refused', error: { message: name, code: name, file: name, line: 1 } },
      error: { kind: 'policy', place: name, text: `${name} ${index}`, since: Date.now() },
    }));
    const changes = HOSTILE.map((name, index) => ({
      ...change,
      ...{ id: `${index}abcdef0`, title: name, by: name, topics: [name], paths: [name], at: Date.now() },
      error: { message: name, file: name },
    }));
    server.tell({ at: Date.now(), clients, changes });
    await page
      .getByText(HOSTILE[0] ?? '', { exact: false })
      .first()
      .waitFor({ state: 'attached' });
    for (const at of [
      '#/fleet',
      '#/fleet?group=app',
      '#/changes',
      ...HOSTILE.map((name) => `#/clients/${encodeURIComponent(name)}`),
    ]) {
      await page.evaluate(`location.hash = ${JSON.stringify(at)}`);
      await watched.settled();
      const made = await page.evaluate(
        `document.querySelectorAll('#app img, #app script, #app iframe, a[href^="javascript:" i], [onerror]').length`,
      );
      assert.equal(made, 0, at);
    }
    for (const name of HOSTILE) {
      await page.evaluate(`location.hash = ${JSON.stringify(`#/fleet?q=${encodeURIComponent(name)}`)}`);
      await watched.settled();
    }
    const unexpected = watched.problems().filter((text) => !/status of 40[14]/.test(text)); // the client is known to the stream alone
    assert.deepEqual(unexpected, []);
  });
});
