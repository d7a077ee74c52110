import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import * as z from 'zod';
import { clientAnswer } from '../../src/wire/client-details.js';
import { FLEET_EVENTS } from '../../src/wire/fleet.js';
import {
  documentsAnswer,
  policyDiffAnswer,
  policyFilesAnswer,
  policySourceAnswer,
} from '../../src/wire/fleet-views.js';
import { traceAnswer } from '../../src/wire/trace.js';
import { type FleetPeer, fleetPeer } from '../support/fleet-peer.js';
import { startServer } from '../support/start-server.js';
import { builtPage } from '../ui/support/built-page.js';
import { startFixture } from '../ui/support/fixture-server.js';
import { NO_BROWSER, testBrowser, type WatchedPage } from '../ui/support/watched-page.js';

/** The live page in a real browser, before a fleet in which everything that is free to be called something is called what harms. */

/** Markup, addresses, templates, names of prototypes, texts that turn or hide others, halves of characters, and 64 KB of one. */
const HOSTILE = [
  '<img src=x onerror=alert(1)>',
  '</code></script><script>alert(1)</script>',
  'javascript:alert(1)//',
  '{{constructor.constructor("alert(1)")()}}<%= 7*7 %>',
  'constructor',
  '__proto__',
  'toString',
  'hasOwnProperty',
  '\u202eevil\u2066 \u2067a\u202db',
  '\u200b\u200d\ufeff\u00ad',
  '\ud800 half \udfff',
  '/../..//%00%2e%2e?#',
  '\u0000\u0007\u001b[2J\u009b\r\n',
  'x'.repeat(65_536),
  '-1e999',
  '',
];
/** Members that have words of the server, not of those whom it shows. */
const OF_SERVER = ['state', 'status', 'last_look_result', 'details_missing'];
/** Longest that one page may take to be drawn. */
const DRAWN_MS = 10_000;

/** What a page must not have, whatever it shows: elements and addresses that run something, and texts of JavaScript itself. */
const FOUND = `(() => {
  const found = [];
  for (const one of document.querySelectorAll('#app *')) {
    if (/^(IMG|SCRIPT|IFRAME|OBJECT|EMBED|STYLE|FORM)$/i.test(one.tagName)) found.push(one.tagName);
    for (const { name, value } of one.attributes) {
      if (/^on/i.test(name)) found.push(name);
      if (/^(href|src|action)$/i.test(name) && !/^[#/]/.test(value)) found.push(name + '=' + value.slice(0, 60));
    }
  }
  const text = document.querySelector('#app').textContent;
  for (const word of ['native code', '[object '])
    if (text.includes(word)) found.push(word + ' at ' + JSON.stringify(text.slice(text.indexOf(word) - 40, text.indexOf(word) + 40)));
  if (/[\\u202a-\\u202e\\u2066-\\u2069]/.test(text)) found.push('text that turns others');
  for (const name in {}) found.push('all objects have ' + name);
  if (text.length < 100) found.push('nothing is shown: ' + text);
  return found;
})()`;

/** Opens an address of the page, and tells what it must not have. */
async function look({ page, problems, settled }: WatchedPage, at: string): Promise<void> {
  const startedMs = performance.now();
  await page.evaluate(`location.hash = ${JSON.stringify(at)}`);
  await settled();
  assert.deepEqual([problems(), await page.evaluate(FOUND)], [[], []], at.slice(0, 80));
  assert(performance.now() - startedMs < DRAWN_MS, at.slice(0, 80));
}

describe('the live page before a hostile fleet', { skip: NO_BROWSER }, () => {
  const browser = testBrowser();
  after(() => browser[Symbol.asyncDispose]());

  it('shows what real clients say of themselves, by any grouping, search and order', async () => {
    await using server = await startServer({});
    const peers: FleetPeer[] = [];
    const labels = { constructor: 'x', toString: 'y', valueOf: 'z', hasOwnProperty: 'w' };
    for (const [index, text] of HOSTILE.entries()) {
      const id = `${index}${text}`.slice(0, 256);
      const peer = await fleetPeer(server.url, id, {
        topics: ['policy_data', text.slice(0, 1000)],
        more: index % 2 === 0 ? {} : { labels },
      });
      const short = text.slice(0, 400);
      peer.report({
        engine: { kind: short, version: short, online: true },
        failing: [{ path: text, error: text, kind: text.slice(0, 40), since: 1 }],
      });
      peers.push(peer);
    }
    try {
      await using watched = await browser.open(`${server.url}/ui`);
      await watched.page.getByText('0<img', { exact: false }).first().waitFor();
      for (const name of ['constructor', 'toString', '__proto__']) {
        await look(watched, `/fleet?group=label:${name}`);
        await look(watched, `/fleet?q=${name}:x`);
        await look(watched, `/fleet?q=-label:${name}`);
      }
      for (const key of ['client', 'labels', 'engine', 'error', '__proto__', 'constructor']) {
        await look(watched, `/fleet?sort=${key}`);
        await look(watched, `/fleet?sort=-${key}&group=${key}`);
      }
      const links = z
        .array(z.string())
        .parse(await watched.page.evaluate(`[...document.querySelectorAll('[data-id] a')].map((one) => one.hash)`));
      const clients = new Set(links.filter((link) => link.startsWith('#/clients/') && link.length > 11));
      assert(clients.size >= 8, `${clients.size} clients can be opened`);
      for (const link of clients) {
        await look(watched, link);
        await watched.page.getByText('Topics', { exact: true }).first().waitFor();
      }
      for (const page of ['changes', 'data', 'policy', 'instances']) await look(watched, `/${page}`);
      assert.deepEqual(watched.problems(), []);
    } finally {
      for (const peer of peers) await peer[Symbol.asyncDispose]();
    }
  });

  it('shows whatever the server may answer, with the most harmful text in each place that is free', async () => {
    await using server = await startFixture(await builtPage(), 'converging');
    await using watched = await browser.open(`${server.url}/ui`);
    const { page } = watched;
    await page.getByRole('row').nth(2).waitFor();
    const fleet = server.fleet();
    assert(fleet !== null);
    const answers: readonly (readonly [RegExp, z.ZodType])[] = [
      [/^\/clients\/[^/]+$/, clientAnswer],
      [/^\/data\/documents$/, documentsAnswer],
      [/^\/policy\/source$/, policySourceAnswer],
      [/^\/policy\/files$/, policyFilesAnswer],
      [/^\/policy\/diff$/, policyDiffAnswer],
      [/^\/trace\//, traceAnswer],
    ];
    const [row] = fleet.clients;
    const [policy] = fleet.changes;
    assert(row !== undefined && policy !== undefined);
    const canned = new Map<string, unknown>();
    await page.route('**/*', async (route) => {
      const { pathname } = new URL(route.request().url());
      const found = answers.find(([of]) => of.test(pathname));
      if (found === undefined) return route.continue();
      const place = pathname.startsWith('/clients/')
        ? `/clients/${row.id}`
        : pathname.startsWith('/trace/')
          ? `/trace/${policy.id}`
          : pathname;
      if (!canned.has(place)) canned.set(place, await (await fetch(server.url + place)).json());
      return route.fulfill({ json: poisoned(found[1], canned.get(place)) });
    });
    const clients = fleet.clients.slice(0, 40);
    server.tell({
      ...(poisoned(FLEET_EVENTS.delta, {
        clients,
        changes: fleet.changes.slice(0, 40),
        source: fleet.source,
      }) as object),
      at: Date.now(),
    });
    await page.getByText('<img', { exact: false }).first().waitFor({ state: 'attached' });
    for (const at of [
      'fleet',
      'fleet?group=constructor',
      'fleet?sort=labels',
      'changes',
      'data',
      'policy',
      'policy?tab=files',
      'instances',
    ])
      await look(watched, `/${at}`);
    for (const [index, name] of HOSTILE.entries()) {
      const query = new URLSearchParams({
        q: name,
        group: name,
        sort: name,
        tab: name,
        to: name,
        state: name,
        path: name,
        kind: name,
      });
      const id = encodeURIComponent(name.replaceAll(/\p{Cs}/gu, '')) || 'x';
      const others = [`clients/${id}`, `changes/${id}?${query}`, `data?${query}`, `fleet?${query}`];
      for (const at of [others[0], others[1 + (index % 3)]])
        if (at !== undefined && at.length < 30_000) await look(watched, `/${at}`);
    }
    await look(watched, '/clients/%ED%A0%80%');
    assert.deepEqual(watched.problems(), []);
  });
});

/** A value of a schema with the next hostile text in each place where the schema takes any. */
function poisoned(schema: z.core.$ZodType, value: unknown, next = hostileTexts()): unknown {
  if (value === null || value === undefined) return value;
  if (schema instanceof z.ZodString) return schema.format === null ? next() : value;
  if (schema instanceof z.ZodObject) {
    const { shape } = schema;
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [
        name,
        name in shape && !OF_SERVER.includes(name) ? poisoned(shape[name], member, next) : member,
      ]),
    );
  }
  if (schema instanceof z.ZodArray) return (value as unknown[]).map((one) => poisoned(schema.element, one, next));
  if (schema instanceof z.ZodRecord) {
    const [first] = Object.entries(value);
    const members =
      typeof first?.[1] !== 'string'
        ? []
        : ['constructor', 'toString', next()].map((name) => [name, String(first?.[1])]);
    return Object.fromEntries([...Object.entries(value), ...members]);
  }
  if (schema instanceof z.ZodUnion) {
    const option = schema.options.find((one) => z.safeParse(one, value).success);
    return option === undefined ? value : poisoned(option, value, next);
  }
  const { def } = schema._zod;
  return 'innerType' in def ? poisoned(def.innerType as z.core.$ZodType, value, next) : value;
}

function hostileTexts(): () => string {
  let at = 0;
  return () => HOSTILE[at++ % HOSTILE.length] ?? '';
}
