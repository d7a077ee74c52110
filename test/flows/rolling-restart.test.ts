import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Agent, fetch } from 'undici';
import { type BackboneServer, backboneOffer } from '../support/backbone-servers.js';
import { makeAuthority, type TestAuthority } from '../support/certificates.js';
import { gitRepoAt } from '../support/git-repo.js';
import { field, parsed, request } from '../support/http.js';
import { agree, type Instance, startInstance } from '../support/instance.js';
import { type Nginx, startNginx } from '../support/nginx.js';
import { nginxProgram } from '../support/server-programs.js';
import { type StartedClient, startClient } from '../support/start-client.js';
import { tempDir } from '../support/temp-dir.js';
import { patience, until } from '../support/until.js';

const nginxFound = await nginxProgram();
const offer = await backboneOffer('Redis');
const missing = 'missing' in nginxFound ? nginxFound.missing : offer.missing;

/** Promised: no client is away longer, on a machine without other work. */
const AWAY_MS = 3000;
/** Publishers, each with at most one publish under way; readers and a watcher come to it. */
const PUBLISHERS = 3;
const CLIENTS = ['one', 'two', 'three'];

describe('two servers behind nginx, restarted one after the other under publishes', { skip: missing ?? false }, () => {
  const ends: (() => PromiseLike<void>)[] = [];
  const use = <T extends AsyncDisposable>(part: T): T => {
    ends.push(() => part[Symbol.asyncDispose]());
    return part;
  };
  let instances: readonly [Instance, Instance];
  let nginx: Nginx;
  let authority: TestAuthority;
  let clients: readonly StartedClient[];

  before(async () => {
    assert('path' in nginxFound);
    const dir = use(await tempDir());
    const repo = await gitRepoAt(join(dir.path, 'repo'));
    await repo.commit({ 'app.rego': 'package app\n\nversion := 1\n' });
    const backbone: BackboneServer = use(await offer.start());
    authority = use(await makeAuthority('balancer'));
    const env = {
      SYNC_BROADCAST_URI: backbone.uri,
      SYNC_POLICY_REPO_URL: repo.url,
      SYNC_TRUSTED_PROXIES: '127.0.0.1',
      SYNC_DRAIN_DELAY: '0.5',
    };
    instances = [use(await startInstance(env)), use(await startInstance(env))];
    const servers = [instances[0].url, instances[1].url] as const;
    nginx = use(await startNginx(nginxFound, { servers, pair: await authority.issue('localhost') }));
    await agree(instances);
    const tls = {
      SYNC_CLIENT_SELF_SIGNED_CERTIFICATES_ALLOWED: 'true',
      SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE: authority.file,
    };
    clients = await Promise.all(
      CLIENTS.map(async (id) => use(await startClient({ serverUrl: nginx.url, env: { SYNC_CLIENT_ID: id, ...tls } }))),
    );
    for (const client of clients) await client.answers('/app/version', {}, 1);
  });
  after(async () => {
    for (const end of ends.reverse()) await end();
  });

  it('no request fails, no client is away longer than 3 s, and every update arrives', async (context) => {
    const dispatcher = new Agent({ connect: { ca: await readFile(authority.file) } });
    ends.push(() => dispatcher.destroy());
    const load = startTraffic(nginx.url, dispatcher);
    const ask = async (path: string): Promise<unknown> =>
      await (await fetch(`${nginx.url}${path}`, { dispatcher })).json();
    const watches = [watchFleet(() => ask('/clients')), ...clients.map(watchClient)];
    try {
      for (const instance of instances) {
        const before = load.answered();
        await until(() => load.answered() > before + 50, { withinMs: 20_000, what: 'publishes flow' });
        const end = await instance.terminate();
        assert.equal(end.code, 0, end.stderr);
        await instance.start();
        const isReady = async (): Promise<boolean> => (await request(`${instance.url}/ready`)).status === 200;
        await until(isReady, { withinMs: 20_000, what: 'it is ready again' });
      }
      const before = load.answered();
      await until(() => load.answered() > before + 50, { withinMs: 20_000, what: 'publishes flow' });
    } finally {
      await load.stop();
      for (const watch of watches) await watch.stop();
    }
    const [listed = 0, ...own] = watches.map(({ longestMs }) => Math.round(longestMs()));
    const moves = clients.map(({ log }) => log.filter(({ msg }) => msg === 'subscribed').length);
    context.diagnostic(
      `${load.answered()} requests; absent: for GET /clients ${listed} ms, in their own view ${own.join(', ')} ms; ` +
        `connections ${moves.join(', ')}`,
    );
    assert.deepEqual(load.failures, []);
    for (const away of [listed, ...own]) assert(away < AWAY_MS * patience(), `away for ${away} ms`);
    assert(
      moves.every((count) => count >= 2),
      `each client was on a server that restarted: ${moves.join(', ')}`,
    );
    assert.equal(await recorded(ask), load.published(), 'each publish is in the log once');
    for (const client of clients) {
      for (const [path, value] of load.last) await client.holds(path, value);
      assert(!client.log.some(({ msg }) => msg === 'connection to the sync server lost'), 'a move is no failure');
    }
  });
});

/** What goes through the balancer. */
interface Traffic {
  readonly failures: readonly string[];
  /** The last value of each path. */
  readonly last: ReadonlyMap<string, number>;
  answered(): number;
  /** Publishes that were sent. */
  published(): number;
  stop(): Promise<void>;
}

/** Publishes, some of which wait, and reads, each over connections that are kept; every answer other than 200 and 202 is a failure. */
function startTraffic(url: string, dispatcher: Agent): Traffic {
  const failures: string[] = [];
  const last = new Map<string, number>();
  let answered = 0;
  let published = 0;
  let isStopped = false;
  async function send(path: string, body?: object): Promise<void> {
    try {
      const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
      const headers = { 'content-type': 'application/json' };
      const answer = await fetch(`${url}${path}`, { ...init, headers, dispatcher });
      const text = await answer.text();
      if (answer.status !== 200 && answer.status !== 202) failures.push(`${path}: ${answer.status} ${text}`);
      else if (parsed(text) === undefined) failures.push(`${path}: no JSON: ${text}`);
      answered++;
    } catch (error) {
      failures.push(`${path}: ${String(error)}: ${String(error instanceof Error ? error.cause : '')}`);
    }
  }
  async function publisher(at: number): Promise<void> {
    for (let value = 1; !isStopped; value++) {
      const path = `/load/p${at}`;
      published++;
      const entries = [{ url: '', topics: ['policy_data'], dst_path: path, data: value }];
      await send(`/data/config${value % 5 === 0 ? '?wait=applied&timeout=2s' : ''}`, { entries, reason: 'load' });
      last.set(path, value);
      await pause(10);
    }
  }
  async function reader(path: string): Promise<void> {
    while (!isStopped) {
      await send(path);
      await pause(20);
    }
  }
  const running = Promise.all([
    ...Array.from({ length: PUBLISHERS }, (_, at) => publisher(at)),
    ...['/policy', '/data/config'].map(reader),
  ]);
  return {
    failures,
    last,
    answered: () => answered,
    published: () => published,
    stop: async () => {
      isStopped = true;
      await running;
    },
  };
}

/** How many updates of {@link startTraffic} are in the log. */
async function recorded(ask: (path: string) => Promise<unknown>): Promise<number> {
  let count = 0;
  for (let before = ''; ; ) {
    const page = await ask(`/data/log?limit=1000${before}`);
    const updates = field(page, 'updates');
    assert(Array.isArray(updates), JSON.stringify(page));
    count += updates.filter((update) => field(update, 'reason') === 'load').length;
    const next = field(page, 'next');
    if (next === null) return count;
    before = `&before=${String(next)}`;
  }
}

/** Looks all the time, and measures the longest absence. */
interface Watch {
  longestMs(): number;
  stop(): Promise<void>;
}

/** What a client says of itself. */
function watchClient(client: StartedClient): Watch {
  return watch(50, async () => {
    const isThere = field((await client.health()).json, 'server', 'connected') === true;
    return isThere ? [] : ['it'];
  });
}

/** What GET /clients of the balancer says of all. */
function watchFleet(ask: () => Promise<unknown>): Watch {
  return watch(50, async () => {
    const listed = field(await ask(), 'clients');
    assert(Array.isArray(listed));
    const here = new Set(
      listed.filter((one) => field(one, 'connected') === true).map((one) => field(one, 'client_id')),
    );
    return CLIENTS.filter((id) => !here.has(id));
  });
}

/** `look` answers who is absent. An absence counts from the first look that finds it to the first that does not. */
function watch(everyMs: number, look: () => Promise<readonly string[]>): Watch {
  const since = new Map<string, number>();
  let longest = 0;
  let isStopped = false;
  async function run(): Promise<void> {
    while (!isStopped) {
      const absent = await look();
      const now = performance.now();
      for (const id of absent) since.set(id, since.get(id) ?? now);
      for (const [id, fromMs] of since) {
        longest = Math.max(longest, now - fromMs);
        if (!absent.includes(id)) since.delete(id);
      }
      await pause(everyMs);
    }
  }
  const running = run();
  return {
    longestMs: () => longest,
    stop: async () => {
      isStopped = true;
      await running;
    },
  };
}

/** A pace, not a wait for something. */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
