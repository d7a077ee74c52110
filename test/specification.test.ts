import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createClient } from '../src/client/client.js';
import { CLIENT_SETTINGS } from '../src/client/options.js';
import { silentLogger } from '../src/lib/observe/log.js';
import { readSettings } from '../src/lib/settings/options.js';
import type { Setting, Settings } from '../src/lib/settings/setting.js';
import { SERVER_SETTINGS } from '../src/server/options.js';
import { field, request } from './support/http.js';
import { repoRoot } from './support/repo.js';
import { type SpecRow, specRows } from './support/spec-page.js';
import { startPeer } from './support/start-peer.js';
import { startServer } from './support/start-server.js';
import { testNames } from './support/test-names.js';
import { brokenReferences } from './support/test-references.js';

/** docs/internals/specification.md holds: every row names a test that is there, and no row has gone. */

/** Rows of each section. A row that is added or taken away has to be added or taken away here, too. */
const SECTIONS: Readonly<Record<string, number>> = {
  'What the service does': 15,
  DataSourceEntry: 8,
  DataSourceConfig: 3,
  DataUpdate: 4,
  UpdateCallbackConfig: 3,
  UpdateReport: 6,
  PolicyBundle: 6,
  PolicyUpdateMessage: 3,
  'Health document': 5,
  AccessTokenRequest: 4,
  'Webhook parameters': 7,
  'Webhook presets': 4,
  'Configuration variables': 23,
  'Client server-connectivity': 9,
  'Client data-update sequence': 5,
  'Client policy-fetch sequence': 3,
  'Health states': 5,
  'Bundle source tracking': 9,
  'Sync server': 13,
  'Sync client': 8,
  'Policy engine': 7,
  'External data source API': 2,
  'Bundle server': 2,
  'Command line tools': 3,
  'Policy bundle rules': 7,
  Authentication: 8,
  Events: 7,
  Errors: 13,
  Limits: 16,
  Versioning: 4,
};

const PAGE = readFileSync(join(repoRoot(), 'docs/internals/specification.md'), 'utf8');
const ROWS = specRows(PAGE);

test('the page has every section with its rows, and each row an id of its own', () => {
  const counts: Record<string, number> = {};
  for (const { section } of ROWS) counts[section] = (counts[section] ?? 0) + 1;
  assert.deepEqual(counts, SECTIONS);
  const ids = ROWS.map(({ id }) => id);
  assert.deepEqual(ids.toSorted(), [...new Set(ids)].toSorted());
  for (const { id, cells } of ROWS) {
    for (const [title, cell] of cells) assert(cell !== '', `${id} has nothing under "${title}"`);
  }
});

test('every row refers to tests that are there', () => {
  const problems = ROWS.flatMap(({ id, references, rest }) => [
    ...(references.length === 0 ? [`${id} names no test`] : []),
    ...(rest === '' ? [] : [`${id}: "${rest}" is no reference`]),
    ...brokenReferences(id, references),
  ]);
  assert.deepEqual(problems, []);
});

test('a test name is found as it stands, as a case of a template, or in a table; nothing else is', () => {
  const names = testNames(`
    test('plain, it\\'s', () => 1);
    for (const how of ['over file']) it(\`\${how}: polls \${f({ a: 1 })}\`, g);
    const rows = [['from a table', 1]];
    for (const [name] of rows) it(name, () => /x/.test('x'));
  `);
  for (const name of ["plain, it's", 'over file: polls a', 'from a table']) assert(names.has(name), name);
  for (const name of ['plain', 'over http: polls a', 'over file: polls', 'table', 'y']) {
    assert(!names.has(name), name);
  }
});

/** The setting that is called so in the environment, in a program. */
function settingOf(settings: Settings, name: string): Setting<unknown> | undefined {
  return Object.values(settings).find(({ env, aliases }) => env === name || aliases.includes(name));
}

test('every setting of the page exists, in the programs and with the default that its row says', () => {
  const programs: Record<string, Settings> = { server: SERVER_SETTINGS, client: CLIENT_SETTINGS };
  const rows = ROWS.filter(({ section }) => section === 'Configuration variables');
  for (const { id, cells } of rows) {
    for (const component of (cells.get('component') ?? '').split(', ')) {
      const setting = settingOf(programs[component] ?? {}, id);
      assert(setting !== undefined, `${component} has no setting ${id}`);
      const { defaultText } = setting;
      const shown = defaultText === undefined ? 'none' : defaultText === '' ? 'empty' : `\`${defaultText}\``;
      assert.equal(cells.get('default'), shown, `${component} ${id}`);
    }
  }
  for (const [name] of PAGE.matchAll(/\bSYNC_[A-Z0-9_]+[A-Z0-9]\b/g)) {
    assert(settingOf({ ...SERVER_SETTINGS, ...CLIENT_SETTINGS }, name), `${name} is no setting`);
  }
});

/** `GET /policy` of the rows that are endpoints of a program. */
function endpoints(base: 'base_url' | 'client_url'): string[] {
  const pattern = new RegExp(`^([A-Z]+) \\{${base}\\}(/\\S*)$`);
  return ROWS.flatMap(({ id }: SpecRow) => {
    const [, method, path] = pattern.exec(id) ?? [];
    return method === undefined || method === 'WS' ? [] : [`${method} ${path}`];
  });
}

/** What a started program says of its own routes. */
async function documented(url: string): Promise<Set<string>> {
  const paths = field((await request(`${url}/openapi.json`)).json, 'paths');
  return new Set(
    Object.entries(Object(paths)).flatMap(([path, methods]) =>
      Object.keys(Object(methods)).map((method) => `${method.toUpperCase()} ${path}`),
    ),
  );
}

test('every endpoint of the page is one of the server or of the client', async () => {
  await using server = await startServer();
  await using peer = await startPeer(server.url);
  assert.equal(await peer.call('ping', {}), 'pong');
  const ofServer = await documented(server.url);
  assert.deepEqual(
    endpoints('base_url').filter((endpoint) => !ofServer.has(endpoint)),
    [],
  );
  const { values } = readSettings(CLIENT_SETTINGS, {
    env: {
      SYNC_CLIENT_API_SERVER_PORT: '0',
      SYNC_SERVER_URL: server.url,
      SYNC_INLINE_ENGINE_ENABLED: 'false',
      SYNC_POLICY_STORE_URL: 'http://127.0.0.1:9',
    },
  });
  const client = createClient(values, { log: silentLogger(), env: process.env });
  try {
    const ofClient = await documented((await client.start()).url);
    assert.deepEqual(
      endpoints('client_url').filter((endpoint) => !ofClient.has(endpoint)),
      [],
    );
  } finally {
    await client.stop();
  }
});
