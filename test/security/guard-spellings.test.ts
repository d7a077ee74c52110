import assert from 'node:assert/strict';
import { Agent, request } from 'node:http';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import { expressSites, fastifySites, type GuardedSite, type Served, writeFiles } from '../support/guarded-sites.js';
import { parsed } from '../support/http.js';
import { runSize } from '../support/run-size.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';

/**
 * The policy is told of the resource that is served, however the caller spells its address: each application says by itself what it
 * has served. What has several readings is 403, and no policy is asked.
 */

/** Addresses that a browser asks for, and what they are. */
const PLAIN: readonly (readonly [string, readonly string[]])[] = [
  ['/public/info', ['public', 'info']],
  ['/admin/secret', ['admin', 'secret']],
  ['/documents/7', ['documents', '7']],
  ['/documents/new', ['documents', 'new']],
  ['/list', ['list']],
  ['/acme', ['acme']],
  ['/acme/report', ['acme', 'report']],
  ['/acme/people/ann', ['acme', 'people', 'ann']],
  ['/acme/deeper/year/2026', ['acme', 'deeper', 'year', '2026']],
  ['/t/acme/docs/7', ['t', 'acme', 'docs', '7']],
  ['/files/a/b.txt', ['files', 'a', 'b.txt']],
  ['/assets/admin/secret.txt', ['assets', 'admin', 'secret.txt']],
  ['/assets/a%20b/%C3%A4.txt', ['assets', 'a b', 'ä.txt']],
];

/** Ways to spell an address otherwise. */
const WAYS: Readonly<Record<string, (path: string) => string>> = {
  'as it is': (path) => path,
  'a query': (path) => `${path}?x=/public/info`,
  'upper case': (path) => path.toUpperCase(),
  'a capital': (path) => path.replace(/[a-z]/, (letter) => letter.toUpperCase()),
  'a capital at the end': (path) => path.replace(/[a-z](?=[^a-z]*$)/, (letter) => letter.toUpperCase()),
  'a slash at the end': (path) => `${path}/`,
  'two slashes at the end': (path) => `${path}//`,
  'two slashes at the start': (path) => `/${path}`,
  'two slashes inside': (path) => path.replace(/(?<=.)\//, '//'),
  'a dot at the start': (path) => `/.${path}`,
  'a dot inside': (path) => path.replace(/(?<=.)\//, '/./'),
  'a dot at the end': (path) => `${path}/.`,
  'a way up': (path) => `/public/..${path}`,
  'a way up, encoded': (path) => `/public/%2e%2e${path}`,
  'a way up, half encoded': (path) => `/public/.%2E${path}`,
  'a way up with an encoded slash': (path) => `/public/..%2f${path.slice(1)}`,
  'a way up, all encoded': (path) => `/public%2f%2e%2e%2f${path.slice(1)}`,
  'a way up, encoded twice': (path) => `/public/%252e%252e${path}`,
  'a way up with a semicolon': (path) => `/public/..;${path}`,
  'a way up, overlong': (path) => `/public/%c0%ae%c0%ae${path}`,
  'a way up with a backslash': (path) => `/public\\..${path}`,
  'a way up with an encoded backslash': (path) => `/public%5c..${path}`,
  'a way up from a parameter': (path) => `/documents/..${path}`,
  'a way up from a mount path': (path) => `/acme/..${path}`,
  'a way up from files': (path) => `/assets/..${path}`,
  'a way up from a wildcard': (path) => `/files/%2e%2e${path}`,
  'an encoded slash': (path) => path.replace(/(?<=.)\//, '%2F'),
  'an encoded slash, lower case': (path) => path.replace(/\/(?=[^/]*$)/, (slash, at) => (at === 0 ? slash : '%2f')),
  'an encoded backslash': (path) => path.replace(/(?<=.)\//, '%5C'),
  'a backslash': (path) => path.replace(/(?<=.)\//, '\\'),
  'an encoded letter': (path) => `/%${path.charCodeAt(1).toString(16)}${path.slice(2)}`,
  'an encoded letter at the end': (path) => `${path.slice(0, -1)}%${path.charCodeAt(path.length - 1).toString(16)}`,
  'an encoded capital': (path) => `/%${path.toUpperCase().charCodeAt(1).toString(16)}${path.slice(2)}`,
  'a letter encoded twice': (path) => `/%25${path.charCodeAt(1).toString(16)}${path.slice(2)}`,
  'what stands for no text': (path) => `${path}%zz`,
  'half an encoding': (path) => `${path}%`,
  'a NUL': (path) => `${path}%00`,
  'a newline': (path) => `${path}%0a`,
  'a blank': (path) => `${path}%20`,
  'a dot after it': (path) => `${path}.`,
  'a semicolon': (path) => `${path};x=1`,
  'a semicolon inside': (path) => path.replace(/(?<=.)\//, ';x/'),
  'a fragment': (path) => `${path}#x`,
  'a fragment inside': (path) => path.replace(/(?<=.)\//, '#/'),
  'a scheme and a host': (path) => `http://public${path}`,
  'a scheme in capitals': (path) => `HTTP://localhost:80${path}`,
  'a host and a query before the path': (path) => `http://public?x=${path}`,
  'a host with a user': (path) => `http://public@localhost${path}`,
  'a host and two slashes': (path) => `http://public/${path}`,
  'a host and a way up': (path) => `http://localhost/public/..${path}`,
  'another scheme': (path) => `ftp://localhost${path}`,
  'a scheme and no host': (path) => `http://${path}`,
  'an asterisk': (path) => `*${path.slice(1)}`,
  'a letter that is a K in lower case': (path) => path.replace('ann', '%E2%84%AA'),
  'a rewritten address': (path) => path.replace('/admin', '/old'),
};

/** Spellings that every application refuses, whatever it would do with them. */
const REFUSED = [
  '/public/../admin/secret',
  '/public/%2e%2e/admin/secret',
  '/public/..%2fadmin/secret',
  '/assets/admin%2fsecret.txt',
  '/assets/public%5c..%5cadmin%5csecret.txt',
  '/admin%2fsecret',
  '/./admin/secret',
  '/assets/./admin/secret.txt',
  '/documents/..%2f..%2fadmin',
  '/admin/secret%00',
  '/admin\\secret',
  '/admin/secret#x',
  'http://a@b/admin/secret',
  '*admin/secret',
];

const agent = new Agent({ keepAlive: true, maxSockets: 1 });

interface Outcome {
  readonly status: number;
  readonly error: unknown;
  readonly served: Served | undefined;
  readonly told: GuardedSite['told'];
}

/** A request of this path, on a connection that stays. */
function sent(port: number, path: string): Promise<{ status: number; text: string; file: unknown }> {
  return new Promise((resolve, reject) => {
    const call = request({ host: '127.0.0.1', port, path, agent }, (response) => {
      const { statusCode: status = 0, headers } = response;
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (part) => (text += part));
      response.on('error', reject);
      response.on('end', () => resolve({ status, text, file: headers['x-served'] }));
    });
    call.on('error', (error) => {
      // The server may have ended a connection that was idle; on a new one there is an answer to everything.
      if (call.reusedSocket) sent(port, path).then(resolve, reject);
      else reject(error);
    });
    call.end();
  });
}

async function ask({ port, told }: GuardedSite, path: string): Promise<Outcome> {
  const before = told.length;
  const { status, text, file } = await sent(port, path);
  const json = parsed(text) as { error?: unknown } & Partial<Served>;
  const served = status !== 200 ? undefined : typeof file === 'string' ? fileOf(file) : (json as Served);
  return { status, error: json?.error, served, told: told.slice(before) };
}

function fileOf(name: string): Served {
  return { path: decodeURI(name).split('/'), route: null };
}

/** Asks, and says whether something was served that the policy was told. */
async function isServed(site: GuardedSite, target: string): Promise<boolean> {
  const { status, error, served, told } = await ask(site, target);
  const where = `${site.name}: ${target}`;
  if (error === 'ambiguous_address') {
    assert.equal(status, 403, where);
    // Where there are more guards, those before had a reading that nothing answers to.
    if (site.hasOneGuard) assert.deepEqual(told, [], `${where}: refused before the policy is asked`);
    return false;
  }
  if (served === undefined) {
    assert(status >= 300 && status < 500 && status !== 403, `${where}: ${status}`);
    return false;
  }
  const [only, ...others] = told;
  assert.deepEqual(others, [], `${where}: asked once`);
  assert.deepEqual(only?.path, served.path, `${where}: the policy is told what is served`);
  // A guard in front of a router does not know the route yet.
  const knowsRoute = site.knowsRoute || only.route !== null;
  if (knowsRoute) assert.equal(only.route, served.route, `${where}: and the route that serves it`);
  const plain = await ask(site, plainOf(only.path, target));
  assert.deepEqual(plain.served, served, `${where}: the plain address of what it was told is served alike`);
  return true;
}

/** A path as programs write it. A slash at the end stays: it is another route to some routers, and no other path. */
function plainOf(path: readonly string[], target: string): string {
  // Where the policy was told of a semicolon, it is part of a name, and ends no path.
  const ends = path.some((name) => name.includes(';')) ? '?' : /[?;]/;
  const end = path.length > 0 && target.split(ends)[0]?.endsWith('/') ? '/' : '';
  return `/${path.map(encodeURIComponent).join('/')}${end}`;
}

/** Those that are spelled in every way: a route, a parameter, mount paths, files. */
const SPELLED = [
  '/admin/secret',
  '/documents/7',
  '/documents/new',
  '/acme/people/ann',
  '/t/acme/docs/7',
  '/files/a/b.txt',
  '/assets/admin/secret.txt',
];

/** Of the addresses each site is asked for two in each way, others than the site before: each pair of the three meets. */
const ADDRESSES_A_WAY = runSize({ long: SPELLED.length, ci: SPELLED.length, quick: 2 });

/** What the site at this place is asked for. */
function targetsOf(site: number): string[] {
  const spelled = Object.values(WAYS).flatMap((spell, way) =>
    Array.from({ length: ADDRESSES_A_WAY }, (_, at) => spell(SPELLED[(2 * (site + way) + at) % SPELLED.length] ?? '/')),
  );
  return [...new Set([...PLAIN.map(([path]) => path), ...spelled])];
}

/** Parts of addresses, from which others are made. */
const PARTS = [
  '/ / / // \\ %2f %5C . .. %2e %2E%2e ; ? # % %00 %252e : * @',
  'public admin ADMIN %61dmin secret secret.txt info documents 7 new acme Acme report t docs',
  'files assets list a%20b %C3%A4.txt %c3%84 mixed case part news pair a-b maybe',
].flatMap((line) => line.split(' '));

describe('what the policy is told of an address', () => {
  let dir: TempDir;
  let sites: GuardedSite[] = [];

  before(async () => {
    dir = await tempDir();
    await writeFiles(dir.path);
    sites = [...(await expressSites(dir.path)), ...(await fastifySites(dir.path))];
    assert.equal(sites.length, 2 * 2 * 2 * 3 + 7);
  });

  after(async () => {
    agent.destroy();
    await Promise.all(sites.map((site) => site[Symbol.asyncDispose]()));
    await dir?.[Symbol.asyncDispose]();
  });

  it('is the resource that is served, in every spelling', async () => {
    for (const [at, site] of sites.entries()) {
      const targets = targetsOf(at);
      let count = 0;
      for (const target of targets) count += (await isServed(site, target)) ? 1 : 0;
      assert(count > PLAIN.length, `${site.name}: only ${count} of ${targets.length} were served`);
    }
  });

  it('is the resource that is served, in spellings that nobody thought of', async () => {
    const target = fc
      .tuple(
        fc.constantFrom('/', '/', '/', '/', '', 'http://h/', '*'),
        fc.array(fc.constantFrom(...PARTS), { maxLength: 9 }),
      )
      .map(([start, parts]) => start + parts.join(''))
      .filter((text) => ['/', '*'].includes(text[0] ?? '') || /^https?:\/\/./i.test(text));
    for (const site of sites) {
      const holds = async (text: string): Promise<void> => void (await isServed(site, text));
      const numRuns = runSize({ long: 400, ci: 80, quick: 40 });
      await fc.assert(fc.asyncProperty(target, holds), { numRuns, examples: [['/documents/;'], ['/documents/;/']] });
    }
  });

  it('is asked for plain addresses everywhere', async () => {
    for (const site of sites) {
      for (const [target, path] of PLAIN) {
        const { status, served, told } = await ask(site, target);
        assert.deepEqual([status, served?.path, told[0]?.path], [200, path, path], `${site.name}: ${target}`);
      }
    }
  });

  it('is nothing where the address has several readings', async () => {
    for (const site of sites) {
      for (const target of REFUSED) {
        const { status, error, told } = await ask(site, target);
        assert.deepEqual([status, error, told], [403, 'ambiguous_address', []], `${site.name}: ${target}`);
      }
    }
  });

  it('has the spelling of the routes where a router takes others, too', async () => {
    for (const site of sites) {
      const { status, told } = await ask(site, '/mixed/CASE');
      if (site.caseSensitive) assert.equal(status, 404, site.name);
      else if (told.length > 0) assert.deepEqual(told, [{ path: ['Mixed', 'Case'], route: '/Mixed/Case' }], site.name);
      else assert.equal(status, 403, site.name);
    }
  });

  it('keeps the case of what a parameter holds', async () => {
    for (const site of sites.filter(({ knowsRoute }) => knowsRoute)) {
      for (const [target, path] of [
        ['/documents/Ab%40x', ['documents', 'Ab@x']],
        ['/documents/a%2Fb', ['documents', 'a/b']],
        ['/files/READ.me', ['files', 'READ.me']],
        ['/acme/people/Ann', ['acme', 'people', 'Ann']],
      ] as const) {
        const { status, told } = await ask(site, target);
        assert.deepEqual([status, told[0]?.path], [200, path], `${site.name}: ${target}`);
      }
    }
  });

  it('goes by the options of Fastify', async () => {
    const rows = [
      ['ignoreDuplicateSlashes', '//admin///secret', '/admin/secret'],
      ['useSemicolonDelimiter', '/admin/secret;x=/public', '/admin/secret'],
      ['ignoreTrailingSlash', '/documents/7/', '/documents/:id'],
      ['"caseSensitive":false', '/ADMIN/secret', '/admin/secret'],
      ['rewriteUrl', '/old/secret', '/admin/secret'],
    ] as const;
    for (const [option, target, route] of rows) {
      const site = sites.find(({ name }) => name.includes(option));
      assert(site !== undefined, option);
      const { status, served, told } = await ask(site, target);
      assert.deepEqual([status, told], [200, [served]], option);
      assert.equal(told[0]?.route, route, option);
    }
  });
});
