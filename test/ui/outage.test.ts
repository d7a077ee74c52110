import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { startCommand } from '../support/command.js';
import { gitRepo } from '../support/git-repo.js';
import { freePort } from '../support/opa.js';
import { following, publishText, startClient } from '../support/start-client.js';
import { NO_GATE } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';
import { firstLine, shownIds } from './support/in-page.js';
import { NO_BROWSER, testBrowser } from './support/watched-page.js';

/** Real clients, each with an engine. */
async function startClients(serverUrl: string): Promise<AsyncDisposable> {
  const clients = await Promise.all(
    Array.from({ length: CLIENTS }, (_, each) =>
      startClient({ serverUrl, engine: 'inline', env: { SYNC_CLIENT_ID: `client-${each}` } }),
    ),
  );
  return {
    async [Symbol.asyncDispose]() {
      await Promise.all(clients.map((one) => one[Symbol.asyncDispose]()));
    },
  };
}

/** A server that dies and comes back, as the page shows it. */

const WITHIN = { withinMs: 60_000 };
/** What the browser says by itself of a server that is not there. */
const NOT_THERE = ['Failed to load resource', 'ERR_CONNECTION', 'ERR_INCOMPLETE_CHUNKED_ENCODING'];
const CLIENTS = 3;

describe('a server that is killed', { skip: NO_BROWSER }, () => {
  const browser = testBrowser();
  after(() => browser[Symbol.asyncDispose]());

  it('and comes back: meanwhile the page says what was, then the stream goes on, and nothing is there twice', async () => {
    await using folder = await tempDir();
    await using repo = await gitRepo();
    const first = await repo.commit({ 'app/main.rego': 'package app\n\nallow := true\n' });
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const start = async () => {
      const program = startCommand('server', ['run'], {
        ...NO_GATE,
        ...following(repo),
        SYNC_SERVER_BIND_PORT: String(port),
        SYNC_STATE_DIR: folder.path,
      });
      await program.says(/listening/);
      return program;
    };
    const update = (reason: string, value: number): Promise<number> =>
      publishText(
        url,
        JSON.stringify({ entries: [{ url: '', topics: ['policy_data'], dst_path: '/n', data: value }], reason }),
      );
    await using killed = await start();
    await using _clients = await startClients(url);
    await update('before the outage', 1);
    await using watched = await browser.open(`${url}/ui`, { expects: NOT_THERE });
    const { page } = watched;
    const says = (text: string): Promise<unknown> =>
      until(async () => (await firstLine(page)).includes(text), { ...WITHIN, what: `the page says ${text}` }).catch(
        async (cause: unknown) => {
          throw new Error(`it says "${await firstLine(page)}"`, { cause });
        },
      );
    await says(`Yes: all ${CLIENTS} hold ${first.slice(0, 7)}`);

    await killed[Symbol.asyncDispose](); // SIGKILL
    await page.getByText('The stream is cut').waitFor();
    await says(`all ${CLIENTS} held ${first.slice(0, 7)}`);
    assert.match(await firstLine(page), /^At \d\d:\d\d:\d\d, /);
    assert.equal((await shownIds(page)).length, CLIENTS, 'what was known stays');

    await using again = await start();
    assert.equal(again.process.exitCode, null);
    await page.getByText('The stream is cut').waitFor({ state: 'detached', timeout: WITHIN.withinMs });
    await says(`Yes: all ${CLIENTS} hold ${first.slice(0, 7)}`);
    const second = await repo.commit({ 'app/main.rego': 'package app\n\nallow := false\n' });
    await update('after the outage', 2);
    await says(`Yes: all ${CLIENTS} hold ${second.slice(0, 7)}`);
    const ids = await shownIds(page);
    assert.deepEqual(ids.toSorted(), ['client-0', 'client-1', 'client-2']);

    await page.keyboard.press('g');
    await page.keyboard.press('c');
    await page.getByText('after the outage').first().waitFor();
    for (const reason of ['before the outage', 'after the outage'])
      assert.equal(await page.getByText(reason, { exact: true }).count(), 1, reason);
    assert.deepEqual(watched.problems(), []);
  });
});
