import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { regoOutline } from '../../src/client/engine/modules/rego-outline.js';
import { postgresRequest } from '../../src/client/fetch/postgres-config.js';
import { checkSigned } from '../../src/server/policy/source/bundle-signature.js';
import { packageName, regoPackage } from '../../src/wire/rego-package.js';
import { withKeys } from '../support/auth.js';
import { cpuTimer } from '../support/cpu-time.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { exchange, requestBytes } from '../support/hostile-wire.js';
import { request } from '../support/http.js';
import { startFront } from '../support/opa-front.js';
import { type StartedServer, startServer } from '../support/start-server.js';

/** One text that somebody sends, commits or publishes, and the work and memory that it takes. */

const MIB = 1024 * 1024;

/** How much the most memory of this process has grown since, in MiB. Texts that take little come first, since it never shrinks. */
function memoryTimer(): () => number {
  const peak = (): number => process.resourceUsage().maxRSS / 1024;
  const start = Math.max(peak(), process.memoryUsage().rss / MIB);
  return () => peak() - start;
}

describe('a server without a secret for its webhook, and with keys', () => {
  let repo: GitRepo;
  let server: StartedServer;
  before(async () => {
    repo = await gitRepo();
    await repo.commit({ 'a.rego': 'package a\n' });
    server = await startServer({
      ...withKeys(),
      SYNC_POLICY_REPO_URL: repo.url,
      SYNC_POLICY_REPO_MAIN_BRANCH: 'master',
    });
  });
  after(async () => {
    await server.stop();
    await repo[Symbol.asyncDispose]();
  });

  it('takes the depth and number of values of a payload from nobody', async () => {
    const [spentMs, grownMib] = [cpuTimer(), memoryTimer()];
    const texts = ['['.repeat(5 * MIB), `{"a":[${'[],'.repeat(1_600_000)}0]}`, `${'{"a":'.repeat(MIB)}`];
    const send = (text: string) =>
      exchange(
        server.port,
        requestBytes({
          method: 'POST',
          target: '/webhook',
          headers: [['Content-Type', 'application/json']],
          body: Buffer.from(text),
        }),
      );
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, index) => send(texts[index % texts.length] ?? '')),
    );
    const statuses = answers.map(({ status }) => status);
    assert(statuses.includes(422) && statuses.every((status) => status === 422 || status === 429), statuses.join());
    assert(spentMs() < 3_000, `${spentMs()} ms`);
    assert(grownMib() < 250, `${grownMib()} MiB`);
  });

  it('answers forty names of 16 KB at once, as the name asked for and as one beside Sec-Fetch-Site', async () => {
    const names = [
      'a'.repeat(15_000),
      `${'1'.repeat(15_000)}:`,
      ':'.repeat(15_000),
      ']:'.repeat(7_500),
      `[${'%'.repeat(15_000)}]`,
    ];
    await using open = await startServer({ SYNC_SERVER_HOST: '0.0.0.0' });
    const spentMs = cpuTimer();
    for (const { port } of [server, open]) {
      for (let count = 0; count < 40; count++) {
        const headers = [
          ['Host', names[count % names.length] ?? ''],
          ['Sec-Fetch-Site', 'same-origin'],
          ['Cookie', 'x=1'],
        ] as const;
        const { status } = await exchange(port, requestBytes({ method: 'GET', target: '/ui/events', headers }));
        assert([401, 403, 421].includes(status), `${status}`);
      }
    }
    assert(spentMs() < 2_000, `${spentMs()} ms`);
  });
});

describe('a module', () => {
  const LINES = 6 * MIB;

  it('may begin with 12 MB of comments, or have a name as long', () => {
    const spentMs = cpuTimer();
    const rego = `${'#\n'.repeat(LINES)}package a.b\n\nx := 1\n`;
    assert.deepEqual([packageName(rego), regoPackage(rego)], ['a.b', ['a', 'b']]);
    assert.deepEqual([...regoOutline(rego).heads.keys()], ['x']);
    assert.equal(packageName(`${' \n'.repeat(LINES)}package a`), 'a');
    assert.equal(regoPackage(`package a["${'\\n'.repeat(LINES)}"]`)?.[1]?.length, LINES);
    assert.equal(packageName(`package a["${'\\n'.repeat(LINES)}`), 'a');
    assert.deepEqual([...regoOutline(`package a\nx := "${'\\n'.repeat(LINES)}"`).heads.keys()], ['x']);
    assert(spentMs() < 10_000, `${spentMs()} ms`);
  });
});

it('a query to Postgres may have 60,000 blanks, wherever they are', () => {
  const blanks = ' \n;'.repeat(20_000);
  const spentMs = cpuTimer();
  for (const query of [
    `SELECT 1${blanks}x`,
    `${blanks}SELECT 1`,
    `SELECT 1${blanks}`,
    `SELECT ${';'.repeat(60_000)} 1`,
  ]) {
    const { query: sent } = postgresRequest({ url: 'postgresql://u@db/d', config: { query } });
    assert(query.startsWith(sent) && !/[ \n;]$/.test(sent));
  }
  assert(spentMs() < 1_000, `${spentMs()} ms`);
});

it('a YAML file of a signed bundle may have as many keys as fit into it', async () => {
  const keys = Array.from({ length: 30_000 }, (_, index) => `k${index.toString(36)}`);
  const hash = createHash('sha256').update(JSON.stringify(Object.fromEntries(keys.toSorted().map((key) => [key, 1]))));
  const signed = { name: 'data.yaml', algorithm: 'SHA-256', hash: hash.digest('hex') } as const;
  const spentMs = cpuTimer();
  for (const text of [keys.map((key) => `${key}: 1`).join('\n'), `{${keys.map((key) => `${key}: 1`).join()}}`])
    await checkSigned('data.yaml', signed, streamOf(text));
  await assert.rejects(checkSigned('data.yaml', signed, streamOf('{a: 1, b: 2, a: 3}')), /this key is there twice/);
  assert(spentMs() < 5_000, `${spentMs()} ms`);
});

async function* streamOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

describe('the REST API of the embedded engine', () => {
  it('answers a name of 80 KB at once', async () => {
    await using front = await startFront();
    const spentMs = cpuTimer();
    for (const name of ['a'.repeat(80_000), `:${'1'.repeat(80_000)}x`, `]${':'.repeat(80_000)}`]) {
      const headers = [['Host', name]] as const;
      const { status } = await exchange(front.port, requestBytes({ method: 'GET', target: '/v1/data/app', headers }));
      assert.equal(status, 421);
    }
    assert(spentMs() < 2_000, `${spentMs()} ms`);
  });

  it('makes nothing of 60 MB that are nested without end', async () => {
    await using front = await startFront();
    const body = Buffer.alloc(60_000_000, '[');
    body.write('{"input":');
    const [spentMs, grownMib] = [cpuTimer(), memoryTimer()];
    for (const path of ['/v1/data/app', '/v0/data/app', '/']) {
      const { status } = await request(front.url + path, { method: 'POST', body });
      assert.equal(status, 200);
    }
    assert.deepEqual(front.questions, [], 'no plain questions');
    assert.equal(front.requests.length, 3, "OPA's own handler says what is wrong");
    assert(spentMs() < 2_500, `${spentMs()} ms`);
    assert(grownMib() < 400, `${grownMib()} MiB, with what this process sends`);
  });

  it('takes a million values of an input, and not the millions that 20 MB have', async () => {
    await using front = await startFront({}, { decide: async () => ({ text: '1', by: 'compiled', policy: 'abc' }) });
    const post = (text: string) => request(`${front.url}/v1/data/app`, { method: 'POST', body: text });
    const list = (elements: number): string => `{"input":[${'[],'.repeat(elements - 1)}[]]}`;
    assert.equal((await post(list(999_998))).status, 200);
    const refused = await post(list(7_000_000));
    assert.deepEqual([refused.status, front.requests.length], [400, 0]);
    assert.match(refused.text, /more than 1000000 values/);
  });

  it('takes no number of a million digits, of which OPA makes half a minute, in a body or a query', async () => {
    await using front = await startFront();
    const digits = '9'.repeat(1_000_000);
    for (const [method, path, body] of [
      ['POST', '/v1/data/app', `{"input":{"a":[${digits}]}}`],
      ['POST', '/v1/data/app?explain=full', `{"input":-0.${digits}}`],
      ['POST', '/', `1e${digits}`],
      ['POST', '/v1/query', `{"query":"input.x > 5","input":{"x":${digits}}}`],
      ['GET', `/v1/data/app?input=${digits.slice(0, 100_000)}`, undefined],
      ['GET', `/v1/data/app?pretty&input={"x":${digits.slice(0, 2_001)}}`, undefined],
    ] as const) {
      const answer = await request(front.url + path, { method, ...(body && { body }) });
      assert.deepEqual([answer.status, front.requests, front.questions], [400, [], []], path.slice(0, 40));
      assert.match(answer.text, /a number of more than 2000 digits/);
    }
    for (const input of [
      digits.slice(0, 2_000),
      JSON.stringify(digits),
      `[${'1'.repeat(1_999)},${'2'.repeat(1_999)}]`,
    ]) {
      const body = `{"input":${input}}${' '.repeat(20_000)}`;
      const answer = await request(`${front.url}/v1/data/app`, { method: 'POST', body });
      assert.equal(answer.text.trim(), `{"result":${input}}`);
    }
  });
});
