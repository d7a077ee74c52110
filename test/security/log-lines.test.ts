import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { startCommand } from '../support/command.js';
import { exchange, requestBytes, upgradeBytes } from '../support/hostile-wire.js';
import { postJson } from '../support/http.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** What others call themselves forges no line, commands no terminal, and fills no disk. */

const FORGED = '2099-01-01 00:00:00.000] ERROR: forged';
/** A newline and a line of its own; C0, C1 and what turns the direction of a text. */
const NAMES = [
  `x\n[${FORGED}`,
  `x\r\n[${FORGED}`,
  'x\u001b[2J\u001b]0;t\u0007',
  'x\u009b2Jx\u009d0;t\u009c',
  'x\u202ely\u2066z\u2028',
];
const LONGEST_LINE = 40 * 1024;
const LONG = 4 * 1024 * 1024;

describe('a log', { concurrency: true }, () => {
  for (const format of ['pretty', 'json'] as const) {
    it(`of the format ${format} has a line for each event, whatever it is about`, async () => {
      await using dir = await tempDir();
      await using server = startCommand('policysync', ['server', '--server-bind-port', '0'], {
        SYNC_STATE_DIR: dir.path,
        SYNC_LOG_FORMAT: format,
        SYNC_LOG_LEVEL: 'debug',
      });
      const [, port = ''] = await server.says(/"url":"http:\/\/[^"]*:(\d+)"/);
      const url = `http://127.0.0.1:${port}`;
      for (const name of NAMES) {
        const target = `/docs/${encodeURIComponent(name)}`;
        assert.equal((await exchange(Number(port), requestBytes({ method: 'GET', target, headers: [] }))).status, 404);
        const entries = [{ url: '', data: {}, topics: [name], dst_path: '/x' }];
        await postJson(`${url}/data/config`, { id: name, reason: name, entries });
        await postJson(`${url}/data/callback_report`, { update_id: name, reports: [] });
      }
      const asked = `/ws?__opal_client_id=${encodeURIComponent(NAMES.join(''))}`;
      const socket = exchange(Number(port), upgradeBytes([], asked), { finish: true });
      const huge = 'x'.repeat(LONG);
      await postJson(`${url}/data/config`, { id: huge, reason: huge, entries: [] });
      await postJson(`${url}/data/callback_report`, { update_id: huge, reports: [] });
      await postJson(`${url}/log-level`, { level: 'info', component: huge });
      assert.equal((await socket).status, 101);
      await exchange(Number(port), requestBytes({ method: 'GET', target: '/docs/last-one', headers: [] }));
      await until(() => server.stderr().includes('last-one'), { withinMs: 20_000, what: 'the last line' });
      const text = server.stderr();
      const last = text.lastIndexOf('\n');
      for (const line of text.slice(0, last).split('\n')) {
        assert.match(
          line,
          format === 'json' ? /^\{"level":"/ : /^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\] [A-Z]+/,
          line.slice(0, 300),
        );
        assert.doesNotMatch(line, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u, line.slice(0, 300));
        assert(!line.startsWith(`[${FORGED}`), line);
        assert(line.length < LONGEST_LINE, `${line.length} characters: ${line.slice(0, 300)}`);
      }
      for (const shown of ['\\n[2099', '\\u009b2J', '\\u202e']) assert(text.includes(shown), `${shown} is told`);
    });
  }
});
