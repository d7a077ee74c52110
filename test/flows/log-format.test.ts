import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { startCommand } from '../support/command.js';
import { programFile } from '../support/program-file.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const ESC = '\u001b';
const LISTENING = 'sync server is listening';

/** What a server writes on a terminal from its start to Ctrl-C. */
async function onTerminal(env: Record<string, string>): Promise<string> {
  await using dir = await tempDir();
  const { PATH = '', HOME = '' } = process.env;
  const command = `exec '${process.execPath}' '${programFile('policysync')}' server --server-bind-port 0`;
  // A terminal of its own, from util-linux, which every Linux has.
  const terminal = spawn('script', ['-qec', command, '/dev/null'], {
    env: { PATH, HOME, TERM: 'xterm-256color', SYNC_STATE_DIR: dir.path, ...env },
  });
  let shown = '';
  terminal.stdout.setEncoding('utf8').on('data', (part: string) => {
    shown += part;
  });
  const ended = once(terminal, 'close');
  try {
    await until(() => shown.includes(LISTENING), { withinMs: 30_000, what: `the server listens: ${shown}` });
    terminal.stdin.write('\u0003');
    const [code] = await ended;
    assert.equal(code, 0, shown);
  } finally {
    terminal.kill('SIGKILL');
  }
  return shown;
}

describe('the log format auto', () => {
  const line = /^\[?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+\]? INFO.*: sync server is listening/m;

  it('is lines for people on a terminal, in colours unless NO_COLOR is set', async () => {
    const [coloured, plain] = await Promise.all([onTerminal({}), onTerminal({ NO_COLOR: '1' })]);
    assert.ok(coloured.includes(`${ESC}[32mINFO`), coloured);
    assert.ok(!plain.includes(ESC), plain);
    for (const text of [coloured, plain]) {
      assert.match(
        text
          .split(ESC)
          .map((part) => part.replace(/^\[\d+m/, ''))
          .join(''),
        line,
      );
      assert.doesNotMatch(text, /^\{/m);
    }
  });

  it('is JSON on a terminal by the setting, and where there is no terminal', async () => {
    const json = await onTerminal({ SYNC_LOG_FORMAT: 'json' });
    await using dir = await tempDir();
    await using piped = startCommand('policysync', ['server', '--server-bind-port', '0'], { SYNC_STATE_DIR: dir.path });
    await piped.says(/sync server is listening/);
    for (const text of [json.replaceAll('\r', ''), piped.stderr()]) {
      assert.match(text, /^\{"level":.*sync server is listening"\}$/m);
      assert.ok(!text.includes(ESC), text);
    }
  });
});
