import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Page } from 'playwright-core';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, postJson } from '../support/http.js';
import { following } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';
import { NO_BROWSER, testBrowser, type WatchedPage } from './support/watched-page.js';

/** The page of a real server whose gate refuses the head of the branch. */

const GOOD = 'package app\n\nallow if input.user == "ann"\n';
const BAD = { 'app/a.rego': 'package app\n\nallow if nowhere(1)\n', 'app/b.rego': 'package system\n\nmain := 1\n' };
const BROKEN = { 'app/a.rego': GOOD, 'app/b.rego': null, 'app/data.json': '{\n"a": 1,\n}' };

describe('a commit that the server refuses', { skip: NO_BROWSER }, () => {
  const browser = testBrowser();
  let repo: GitRepo;
  let server: StartedServer;
  let watched: WatchedPage;
  let page: Page;
  before(async () => {
    repo = await gitRepo();
    await repo.commit({ 'app/a.rego': GOOD });
    server = await startServer({ ...following(repo), SYNC_POLICY_GATE: 'on' });
    watched = await browser.open(`${server.url}/ui#/policy`);
    ({ page } = watched);
  });
  after(async () => {
    await watched?.[Symbol.asyncDispose]();
    await browser[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
    await repo?.[Symbol.asyncDispose]();
  });

  async function pushed(files: Record<string, string | null>): Promise<string> {
    const hash = await repo.commit(files);
    const push = { ref: 'refs/heads/master', repository: { clone_url: repo.url } };
    await until(
      async () => {
        const { json } = await postJson(`${server.url}/webhook?wait=10`, push, { 'x-github-event': 'push' });
        return field(json, 'refused', 'commit') === hash;
      },
      { withinMs: 30_000, what: 'the commit is refused' },
    );
    return hash;
  }
  /** The page has this text, with plain spaces. */
  async function shows(at: string, within: string, text: RegExp): Promise<void> {
    await page.goto(`${server.url}/ui${at}`);
    let last = '';
    await until(
      async () => {
        last = (await page.locator(within).allTextContents()).join('\n').replaceAll('\u00a0', ' ');
        return text.test(last);
      },
      { withinMs: 30_000, what: `${at} shows ${text}` },
    ).catch((cause: unknown) => {
      throw new Error(last, { cause });
    });
  }

  it('is shown with file and line wherever it is shown, and with all that is wrong above each page', async () => {
    const bad = await pushed(BAD);
    const short = bad.slice(0, 7);
    await shows(
      '#/fleet',
      '.banner',
      new RegExp(
        `refused the newest commit\\. ${short} is not served: .*app/b\\.rego:1 does not compile: package system.*` +
          'Also app/a\\.rego:3 does not compile: undefined function nowhere\\. Clients keep',
      ),
    );
    await shows('#/changes', 'main', /app\/b\.rego:1.*package system/s);
    await shows(`#/changes/${bad}`, '.err', /^app\/b\.rego:1does not compile: package system/);
    await shows('#/policy', 'main', new RegExp(short));
    await shows(`#/policy?to=${bad}`, '.err', /^app\/b\.rego:1does not compile: package system/);
    assert.deepEqual(watched.problems(), []);
  });

  it('of a file that cannot be read, the line is shown, too', async () => {
    const bad = await pushed(BROKEN);
    await shows('#/fleet', '.banner', /app\/data\.json:3 is not valid JSON/);
    await shows(`#/changes/${bad}`, '.err', /^app\/data\.json:3is not valid JSON/);
    assert.deepEqual(watched.problems(), []);
  });
});
