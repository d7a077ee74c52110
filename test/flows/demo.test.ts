import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { testOpa } from '../support/opa.js';
import { programFile } from '../support/program-file.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** The demo as a newcomer runs it: `policysync demo` of the package, with the real programs, git and OPA. */

const run = promisify(execFile);
/** The demo starts five programs; a busy machine needs its time. */
const WITHIN_MS = 180_000;

interface RunningDemo {
  readonly output: () => string;
  readonly says: (text: string) => Promise<void>;
  readonly interrupt: () => void;
  readonly ended: Promise<number | null>;
  /** Fails when a process of the demo or a file of it is left. */
  readonly assertNothingLeft: () => Promise<void>;
}

/** Starts the demo with a temporary folder of its own. A test that fails ends it. */
async function startDemo(
  t: TestContext,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<RunningDemo> {
  const folder = await tempDir();
  const temp = join(folder.path, 'tmp');
  mkdirSync(temp);
  const demo = spawn(process.execPath, [programFile('policysync'), 'demo', ...args], {
    cwd: temp,
    env: { ...process.env, SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa(), ...env, TMPDIR: temp, TEMP: temp, TMP: temp },
  });
  let output = '';
  for (const stream of [demo.stdout, demo.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  let isOver = false;
  const ended = once(demo, 'close').then(([code]) => {
    isOver = true;
    return code as number | null;
  });
  t.after(async () => {
    demo.kill('SIGTERM');
    await ended;
    await folder[Symbol.asyncDispose]();
  });
  return {
    output: () => output,
    says: (text) =>
      until(() => (isOver && !output.includes(text) ? assert.fail(output) : output.includes(text) || undefined), {
        withinMs: WITHIN_MS,
        what: `the demo says "${text}"`,
      }).then(() => undefined),
    interrupt: () => void demo.kill('SIGINT'),
    ended,
    assertNothingLeft: async () => {
      assert.deepEqual(readdirSync(temp), [], 'files are left');
      // Nor does anything listen: a port that the demo had may be somebody else's by now.
      assert.deepEqual(await processesWith(temp), [], 'processes are left');
    },
  };
}

/** Command lines of processes that have the text in them, or (where the system shows it) in their environment. */
async function processesWith(text: string): Promise<string[]> {
  if (!existsSync('/proc/self/environ')) {
    const { stdout } = await run('ps', ['-A', '-o', 'args=']);
    return stdout.split('\n').filter((line) => line.includes(text));
  }
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => ['cmdline', 'environ'].map((file) => readOrEmpty(`/proc/${pid}/${file}`)))
    .filter((parts) => parts.join('').includes(text))
    .map(([commandLine = '']) => commandLine.replaceAll('\0', ' '));
}

function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return ''; // it has ended meanwhile, or belongs to somebody else
  }
}

test('on a machine with Node and git alone, without a network, OPA runs inside the client', async (t) => {
  const folder = await tempDir();
  t.after(() => folder[Symbol.asyncDispose]());
  const bin = join(folder.path, 'bin');
  mkdirSync(bin);
  symlinkSync(process.execPath, join(bin, 'node'));
  symlinkSync((await run('sh', ['-c', 'command -v git'])).stdout.trim(), join(bin, 'git'));
  const closed = 'http://127.0.0.1:1';
  const demo = await startDemo(t, ['--once'], {
    ...{ PATH: bin, HOME: folder.path, XDG_CACHE_HOME: join(folder.path, 'cache'), SYNC_INLINE_ENGINE_EXEC_PATH: '' },
    ...{ HTTP_PROXY: closed, HTTPS_PROXY: closed, http_proxy: closed, https_proxy: closed },
  });
  assert.equal(await demo.ended, 0, demo.output());
  assert.match(demo.output(), /OPA inside the package: there is no OPA program on this machine/);
  assert.match(demo.output(), /May alice delete a document of her own\? {2}YES {2}[\d.]+ m?s after the commit/);
  assert(!existsSync(join(folder.path, 'cache', 'policysync', 'opa')), 'an OPA program was put into the cache');
  await demo.assertNothingLeft();
});

test('the demo shows a decision, changes it by data and by policy, and stays up until Ctrl-C ends all of it with 0', async (t) => {
  const demo = await startDemo(t, []);
  await demo.says('until you press Ctrl-C');
  const said = demo.output();
  for (const step of [1, 2, 3, 4, 5, 6]) assert(said.includes(`[${step}/6]`), said);
  assert.match(said, /May alice write a report\? {2}NO .*role is viewer/);
  assert.match(said, /Publishing to http:.*\n.*PUT \/users\/alice from http:.*\n.*Reason: alice is an editor now\n/);
  assert.match(said, /May alice write a report\? {2}YES {2}[\d.]+ m?s after the update was sent/);
  assert.match(said, /May alice delete a document of her own\? {2}NO\n/);
  assert.match(said, /May alice delete a document of her own\? {2}YES {2}[\d.]+ m?s after the commit/);
  assert(!said.includes('\u001b'), 'no control codes where there is no terminal');
  // What it prints to try next works when pasted.
  const commands = [...demo.output().matchAll(/^ +((?:curl|node|git|printf|tail) .*)$/gm)].map(([, line = '']) => line);
  assert(commands.filter((line) => line.startsWith('curl')).length >= 6, demo.output());
  const hasCurl = await run('curl', ['--version']).then(
    () => true,
    () => false,
  );
  if (!hasCurl) t.diagnostic('there is no curl here: the lines to try next are not run');
  for (const line of hasCurl ? commands : []) {
    const { stdout } = await run('sh', ['-c', line]);
    if (!line.startsWith('curl')) continue;
    assert.doesNotThrow(() => JSON.parse(stdout), `${line}\nanswered ${stdout}`);
    // OPA may be asked before the update or the commit of the line above has arrived.
    if (line.includes('/allow'))
      await until(async () => (await run('sh', ['-c', line])).stdout.includes('"result":true'), {
        withinMs: WITHIN_MS,
        what: `${line} answers true`,
      });
  }
  demo.interrupt();
  assert.equal(await demo.ended, 0, demo.output());
  await demo.assertNothingLeft();
});

test('Ctrl-C while the parts start ends all of it, and says so by its exit code', async (t) => {
  const demo = await startDemo(t, []);
  await demo.says('[3/6]');
  demo.interrupt();
  assert.equal(await demo.ended, 130, demo.output());
  await demo.assertNothingLeft();
});

test('the demo without git on PATH fails with a sentence that says what to do', async (t) => {
  const empty = await tempDir();
  t.after(() => empty[Symbol.asyncDispose]());
  const demo = await startDemo(t, ['--once'], { PATH: empty.path });
  assert.equal(await demo.ended, 1, demo.output());
  assert.match(
    demo.output(),
    /: git is not on PATH; install it \(https:.*\)\nWhat to do: .* run `policysync demo` again\..*\n$/,
  );
  await demo.assertNothingLeft();
});

test('a step that fails late ends everything, shows the last lines of both programs and why', async (t) => {
  const folder = await tempDir();
  t.after(() => folder[Symbol.asyncDispose]());
  // A git that cannot make the second commit: by then server, client and engine run.
  const git = (await run('sh', ['-c', 'command -v git'])).stdout.trim();
  const script = `case "$*" in *Owners*) echo "no space left" >&2; exit 1;; esac\nexec "${git}" "$@"\n`;
  writeFileSync(join(folder.path, 'git'), `#!/bin/sh\n${script}`, { mode: 0o755 });
  const PATH = [folder.path, process.env.PATH].join(delimiter);
  const demo = await startDemo(t, ['--once'], { PATH });
  assert.equal(await demo.ended, 1, demo.output());
  assert.match(demo.output(), /last lines of the sync-server\n[\s\S]*policy commit served/);
  assert.match(demo.output(), /last lines of the sync-client\n[\s\S]*policy applied/);
  assert.match(demo.output(), /"git commit" failed in .*: no space left\nWhat to do: .* \[demo_failed\]\n$/);
  await demo.assertNothingLeft();
});
