import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { describe, it } from 'node:test';
import { inspect, promisify } from 'node:util';
import fc from 'fast-check';
import { createLogger, logLevelsOf, redactUrl, Secret, silentLogger } from './log.js';

describe('redactUrl', () => {
  const TABLE: Record<string, string> = {
    'http://host/a': 'http://host/a',
    'http://host': 'http://host/',
    'http://u:p@host/a?token=t#f': 'http://***@host/a?***#f',
    'https://token@host/a': 'https://***@host/a',
    'http://:p@host/': 'http://***@host/',
    'ws://host:7002/ws?token=t': 'ws://host:7002/ws?***',
    'postgresql://u:p@db/x?password=p': 'postgresql://***@db/x?***',
    'ssh://git@host/repo': 'ssh://***@host/repo',
    'file:///srv/repo': 'file:///srv/repo',
    'http:u:p@host/a?t=1': 'http://***@host/a?***',
    // Not URLs.
    'http://u:p@host:99999/x?token=t': 'http://***@host:99999/x?***',
    'http://host:99999/x?token=t': 'http://host:99999/x?***',
    'http://u:p/w@host:99999/x': 'http://***@host:99999/x',
    'http://u:p?w#z@host:99999/x': 'http://***',
    'http://host:99999/x?mail=a@b': 'http://***',
    'http://u:p@[host/x?t=1': 'http://***@[host/x?***',
    '//u:p@host/x?t=1': '//***@host/x?***',
    'http://u:p@ho st/\nx?t=1': 'http://***@ho st/\nx?***',
    // Git's own form, and plain values of settings.
    'git@host:org/repo.git': 'git@host:org/repo.git',
    'u:p@host:org/repo.git': 'u:***@host:org/repo.git',
    'u:p/w@x@host:repo': 'u:***@host:repo',
    '/srv/policy': '/srv/policy',
    '**/*?.rego,a': '**/*?.rego,a',
    '': '',
  };
  for (const [text, shown] of Object.entries(TABLE)) {
    it(`shows ${JSON.stringify(text)} as ${JSON.stringify(shown)}`, () => assert.equal(redactUrl(text), shown));
  }

  it('never shows a password or a query, valid URL or not', () => {
    const awkward = fc.string({
      unit: fc.constantFrom('/', '?', '#', '@', ':', '%', '[', ' ', 'x', '\\'),
      maxLength: 6,
    });
    fc.assert(
      fc.property(awkward, awkward, fc.constantFrom('host', 'host:99999', '[::', 'h h'), (before, after, host) => {
        for (const url of [`http://u:${before}SECRET${after}@${host}/a`, `http://${host}/a?${before}SECRET${after}`]) {
          assert(!redactUrl(url).includes('SECRET') || isPathOf(url), `${url} shows as ${redactUrl(url)}`);
        }
      }),
      { numRuns: 2000 },
    );
  });
});

/** True where the word stands in the path or fragment of a valid URL: no place for a secret. */
function isPathOf(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { pathname, hash, host } = new URL(url);
  return `${host}${pathname}${hash}`.toUpperCase().includes('SECRET');
}

describe('a secret', () => {
  const secret = new Secret('s3cret');

  it('gives its text to those who ask', () => assert.equal(secret.reveal(), 's3cret'));

  it('prints as stars wherever it is printed', () => {
    const printed = [`${secret}`, JSON.stringify({ secret }), inspect({ secret }), inspect(secret), String(secret)];
    for (const text of printed) {
      assert(text.includes('***'), text);
      assert(!text.includes('s3cret'), text);
    }
  });
});

it('a silent logger takes everything and makes silent children', () => {
  const log = silentLogger();
  log.error({ a: 1 }, 'nothing');
  log.child({ component: 'x' }).warn({}, 'nothing');
});

/** What a program writes that is this code after `const log = createLogger(...)`. */
async function written(options: object, work: string, env: Record<string, string> = {}): Promise<string> {
  const code = `import { createLogger, logLevelsOf } from ${JSON.stringify(new URL('./log.js', import.meta.url).href)};
    const log = createLogger('p', ${JSON.stringify(options)});
    ${work}`;
  const args = ['--input-type=module', '--eval', code];
  return (await promisify(execFile)(process.execPath, args, { env: { ...process.env, TZ: 'UTC', ...env } })).stderr;
}

describe('a line', () => {
  it('of JSON has ISO time, the name of the level, component and fields, and no secrets', async () => {
    const text = await written(
      { level: 'info', format: 'json' },
      `const part = log.child({ component: 'policy' });
       part.warn({ n: 1, token: 'hush', entry: { headers: { a: 'hush' } } }, 'said');
       log.debug('not said');
       log.info('plain');`,
    );
    const [first = '', second = '', ...others] = text.trimEnd().split('\n');
    const { time, ...line } = JSON.parse(first) as Record<string, unknown>;
    assert.match(String(time), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    const hidden = { token: '[secret]', entry: { headers: '[secret]' } };
    assert.deepEqual(line, { level: 'warn', name: 'p', component: 'policy', n: 1, ...hidden, msg: 'said' });
    const { level, msg } = JSON.parse(second) as Record<string, unknown>;
    assert.deepEqual([level, msg, others], ['info', 'plain', []]);
  });

  it('for people has date and time, and no colours where there is no terminal', async () => {
    const work = "log.child({ component: 'policy' }).warn({ n: 1 }, 'said'); log.debug('not said');";
    const text = await written({ level: 'info', format: 'pretty' }, work, { FORCE_COLOR: '' });
    assert.match(text, /^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\] WARN: said \{"component":"policy","n":1\}\n$/);
  });

  it('is written while the level of its component permits it, also by loggers that were made before', async () => {
    const text = await written(
      { level: 'info', format: 'json' },
      `const policy = log.child({ component: 'policy' });
       const child = policy.child({ id: 7 });
       const data = log.child({ component: 'data' });
       const say = (when) => { for (const each of [log, policy, child, data]) each.debug(when); };
       const levels = logLevelsOf(data);
       say('at first');
       levels.change({ component: 'policy', level: 'debug' });
       say('policy');
       levels.change({ component: 'policy', level: 'silent' });
       levels.change({ level: 'debug' });
       child.error('never');
       say('others');`,
    );
    const lines = text.trimEnd().split('\n');
    const said = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    assert.deepEqual(
      said.map(({ msg, component, id }) => [msg, component, id].join(' ').trimEnd()),
      ['policy policy', 'policy policy 7', 'others', 'others data'],
    );
  });

  it('only a logger of ours has levels that change', () => {
    assert.equal(logLevelsOf(silentLogger()), undefined);
    const levels = logLevelsOf(createLogger('p', { level: 'error', format: 'json' }).child({}));
    assert.equal(levels?.view().level, 'error');
  });
});

describe('the lines of a program', () => {
  const moduleUrl = JSON.stringify(new URL('./log.js', import.meta.url).href);
  const program = (work: string): Promise<{ stderr: string }> => {
    const code = `import { createLogger } from ${moduleUrl};
      const log = createLogger('p', { level: 'info', format: 'json' });
      for (let n = 0; n < 1000; n++) log.info({ n }, 'line');
      ${work}`;
    return promisify(execFile)(process.execPath, ['--input-type=module', '--eval', code]).catch(
      (failed: { stderr: string }) => failed,
    );
  };
  const numbers = ({ stderr }: { stderr: string }): unknown[] =>
    stderr
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => (JSON.parse(line) as { n: unknown }).n);
  const all = Array.from({ length: 1000 }, (_, n) => n);

  it('are all written when it exits, when it throws, and when it just ends', async () => {
    for (const end of ['process.exit(0)', 'throw new Error("x")', ''])
      assert.deepEqual(numbers(await program(end)), all);
  });

  it('are written a moment later while it runs, so that a kill loses none but the last', async () => {
    const killed = await program(
      "setTimeout(() => { log.info({ n: 'lost' }, 'line'); process.kill(process.pid, 'SIGKILL'); }, 100)",
    );
    assert.deepEqual(numbers(killed), all);
  });

  it('wait for the disk when it exits, and not before', async () => {
    const run = await program(`
      const { default: fs } = await import('node:fs');
      let syncs = 0;
      fs.fsyncSync = () => void syncs++;
      const told = (n) => console.error(JSON.stringify({ n: n + ': ' + syncs }));
      setTimeout(() => told('a moment later'), 200);
      process.once('exit', () => told('at the exit'));`);
    assert.deepEqual(numbers(run), [...all, 'a moment later: 0', 'at the exit: 1']);
  });
});
