import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { pathToFileURL } from 'node:url';
import { SyncError } from '../../lib/errors.js';
import { silentLogger } from '../../lib/observe/log.js';
import { type FetchProvider, type FetchRequest, type FetchResult, loadProviderModules } from './provider.js';
import { createFetcher, type Fetcher } from './providers.js';
import { createSpool } from './spool.js';

let dir: string;

/** Each suite has the folder {@link dir} of its own. */
function useFolder(): void {
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'policysync-providers-'));
  });
  after(() => rm(dir, { recursive: true }));
}

const never = new AbortController().signal;

function provider(name: string, fetch: FetchProvider['fetch'], more: Partial<FetchProvider> = {}): FetchProvider {
  return { names: [name], fetch, ...more };
}

/** A provider whose documents are these texts. */
function texts(name: string, ...parts: string[]): FetchProvider {
  return provider(name, async (_request, { sink }) => ({
    outcome: 'body',
    body: await sink.take(parts.map((part) => Buffer.from(part))),
    etag: 'v1',
  }));
}

async function fetcherOf(
  providers: FetchProvider[],
  more: { totalTimeoutMs?: number; limitBytes?: number; concurrency?: number; perHost?: number } = {},
): Promise<Fetcher> {
  const { totalTimeoutMs = 5000, limitBytes = 1000, concurrency = 2, perHost = 1 } = more;
  return createFetcher(
    { totalTimeoutMs, concurrency, perHost },
    { providers, spool: await createSpool({ dir: join(dir, 'spool'), limitBytes }), log: silentLogger() },
  );
}

function asking(fetcher?: string | null): FetchRequest {
  return { url: 'x://user:secret@host/a?token=secret', ...(fetcher === undefined ? {} : { config: { fetcher } }) };
}

describe('fetch providers', () => {
  useFolder();

  it('are chosen by name, in any case; no name means the built-in HTTP', async () => {
    const fetcher = await fetcherOf([texts('HttpFetchProvider', '"http"'), texts('TableFetchProvider', '"ta', 'ble"')]);
    const read = async (name?: string | null): Promise<string> => {
      const result = await fetcher.fetch(asking(name), never);
      assert(result.outcome === 'body');
      assert.equal(result.etag, 'v1');
      return result.body.text();
    };
    for (const name of [undefined, null, '', 'HttpFetchProvider', 'httpfetchprovider'])
      assert.equal(await read(name), '"http"');
    assert.equal(await read('TABLEFetchProvider'), '"table"');
  });

  it('bound the reads of one host where it bears fewer than others', async () => {
    let [running, most] = [0, 0];
    const fetch: FetchProvider['fetch'] = async (_request, { sink }) => {
      running++;
      most = Math.max(most, running);
      const body = await sink.take([Buffer.from('1')]);
      running--;
      return { outcome: 'body', body };
    };
    const mostOf = async (more: Partial<FetchProvider>): Promise<number> => {
      most = 0;
      const fetcher = await fetcherOf([provider('p', fetch, more)], { concurrency: 10, perHost: 7 });
      await Promise.all(Array.from({ length: 20 }, () => fetcher.fetch(asking('p'), new AbortController().signal)));
      return most;
    };
    assert.equal(await mostOf({ perHost: 3 }), 3);
    assert.equal(await mostOf({}), 7);
    assert.equal(await mostOf({ perHost: 9 }), 7);
    for (const perHost of [0, -1, 1.5, Number.NaN]) {
      await assert.rejects(mostOf({ perHost }), { code: 'config_invalid', message: /at least 1/ });
    }
  });

  it('that are not known are refused for good, with the names of those that are', async () => {
    const fetcher = await fetcherOf([texts('HttpFetchProvider', '1'), texts('TableFetchProvider', '2')]);
    await assert.rejects(fetcher.fetch(asking('Ldap'), never), {
      code: 'fetch_config_invalid',
      retryable: false,
      message:
        'x://***@host/a?***: the fetch provider "Ldap" is not known; known are HttpFetchProvider, TableFetchProvider',
    });
  });

  it('have different names', async () => {
    await assert.rejects(fetcherOf([texts('A', '1'), texts('a', '2')]), { code: 'config_invalid', message: /"a"/ });
  });

  it('give documents that are checked for size and for being JSON', async () => {
    const fetcher = await fetcherOf([texts('bad', '{"a":'), texts('large', `"${'x'.repeat(2000)}"`)]);
    await assert.rejects(fetcher.fetch(asking('bad'), never), { code: 'fetch_not_json' });
    await assert.rejects(fetcher.fetch(asking('large'), never), { code: 'fetch_too_large' });
    assert.deepEqual(await readdir(join(dir, 'spool')), []);
  });

  it('that fail of something unexpected are tried again; what they say of themselves counts', async () => {
    const own = new SyncError('fetch_failed', 'gone for good', { retryAfterSeconds: 7 });
    const fetcher = await fetcherOf([
      provider('odd', () => Promise.reject(new TypeError('odd'))),
      provider('sync', () => Promise.reject(own)),
    ]);
    await assert.rejects(fetcher.fetch(asking('odd'), never), {
      code: 'fetch_failed',
      retryable: true,
      message: 'x://***@host/a?***: odd',
    });
    await assert.rejects(fetcher.fetch(asking('sync'), never), own);
  });

  it('that do not listen to their signal lose their turn, and what they bring later is not taken', async () => {
    let bring: () => void = () => undefined;
    const late = new Promise<void>((resolve) => {
      bring = resolve;
    });
    let disposed = 0;
    const fetcher = await fetcherOf(
      [
        provider('deaf', async (_request, { sink }) => {
          await late;
          const body = await sink.take([Buffer.from('1')]);
          return { outcome: 'body', body: { ...body, dispose: async () => void disposed++ } };
        }),
        texts('next', '2'),
      ],
      { totalTimeoutMs: 50 },
    );
    await assert.rejects(fetcher.fetch(asking('deaf'), never), {
      code: 'fetch_failed',
      retryable: true,
      message: 'x://***@host/a?*** was not read within 0.05 s',
    });
    assert.equal((await fetcher.fetch(asking('next'), never)).outcome, 'body', 'its turn is free again');
    bring();
    await late;
    assert.equal(disposed, 0, 'the sink takes nothing after the end');
  });

  it('share one limit per host, and are closed together', async () => {
    let running = 0;
    let most = 0;
    const closed: string[] = [];
    const slow = (name: string): FetchProvider =>
      provider(
        name,
        async () => {
          most = Math.max(most, ++running);
          await new Promise((resolve) => setTimeout(resolve, 5));
          running--;
          return { outcome: 'unchanged' };
        },
        { host: () => 'one', close: async () => void closed.push(name) },
      );
    const fetcher = await fetcherOf([slow('a'), slow('b')]);
    await Promise.all(['a', 'b', 'a', 'b'].map((name) => fetcher.fetch(asking(name), never)));
    assert.equal(most, 1);
    await fetcher.close();
    assert.deepEqual(closed, ['a', 'b']);
  });

  it('that cannot be closed keep neither the others nor the client open', { timeout: 10_000 }, async () => {
    const closed: string[] = [];
    const idle = async (): Promise<FetchResult> => ({ outcome: 'unchanged' });
    const fetcher = await fetcherOf([
      provider('fails', idle, { close: () => Promise.reject(new Error('it is stuck')) }),
      provider('hangs', idle, { close: () => new Promise(() => undefined) }),
      provider('good', idle, { close: async () => void closed.push('good') }),
    ]);
    await fetcher.close();
    assert.deepEqual(closed, ['good']);
  });
});

describe('modules with fetch providers', () => {
  useFolder();

  const module = async (name: string, text: string): Promise<string> => {
    const path = join(dir, name);
    await writeFile(path, text);
    return path;
  };

  it('are loaded by path or URL, and their default export is the provider', async () => {
    const path = await module(
      'good.mjs',
      'export default { names: ["Good"], fetch: async () => ({ outcome: "unchanged" }) };',
    );
    const loaded = await loadProviderModules([path, pathToFileURL(path).href]);
    assert.deepEqual(
      loaded.map(({ names }) => names),
      [['Good'], ['Good']],
    );
    assert.deepEqual(await loadProviderModules([]), []);
  });

  it('that cannot be used are named', async () => {
    const bad: [string, RegExp][] = [
      [join(dir, 'absent.mjs'), /absent\.mjs cannot be loaded: /],
      [await module('syntax.mjs', 'export default {'), /syntax\.mjs cannot be loaded: /],
      [await module('throws.mjs', 'throw new Error("not today");'), /throws\.mjs cannot be loaded: not today/],
      [await module('none.mjs', 'export const names = ["x"];'), /none\.mjs has no fetch provider as default export/],
      [
        await module('nameless.mjs', 'export default { names: [], fetch() {} };'),
        /nameless\.mjs has no fetch provider/,
      ],
      [await module('idle.mjs', 'export default { names: ["x"] };'), /idle\.mjs has no fetch provider/],
    ];
    for (const [path, message] of bad) {
      await assert.rejects(loadProviderModules([path]), { code: 'config_invalid', message });
    }
  });
});
