import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { createDispatcher } from '../../src/client/outbound/dispatcher.js';
import { OutboundGate } from '../../src/client/outbound/gate.js';
import { completeConfig, DEFAULT_CALLBACK_CONFIG } from '../../src/client/report/callbacks.js';
import { ReportSender, type SenderOptions } from '../../src/client/report/sender.js';
import { Secret } from '../../src/lib/observe/log.js';
import { startCallbackReceiver } from '../support/callback-receiver.js';
import { until } from '../support/until.js';

/** A sender, and its log as text. `await using` closes it. */
function startSender(options: Partial<SenderOptions> = {}, gate = new OutboundGate()) {
  const lines: string[] = [];
  const log = pino({ level: 'debug', base: null }, { write: (line) => void lines.push(line) });
  const sender = new ReportSender(
    {
      timeoutMs: 2000,
      backoff: { minMs: 5, maxMs: 20 },
      own: { url: 'http://sync.invalid', token: new Secret('t0ken') },
      ...options,
    },
    {
      dispatcher: createDispatcher(2000, {}),
      gated: createDispatcher(2000, {}, { gate }),
      gate: { methodProblem: () => undefined, checkHostHeader: async () => undefined },
      log,
    },
  );
  return {
    sender,
    log: () => lines.join(''),
    send: (url: string, text = '{}', isConfigured = false) =>
      sender.send({ url, config: DEFAULT_CALLBACK_CONFIG }, text, 'u', isConfigured),
    settled: (what: string) => until(() => sender.counts.queued === 0, { withinMs: 20_000, what }),
    [Symbol.asyncDispose]: () => sender.close(),
  };
}

test('a report is posted once, as JSON', async () => {
  await using receiver = await startCallbackReceiver();
  await using setup = startSender();
  setup.send(`${receiver.url}/cb?k=1`, '{"update_id":"u"}');
  await setup.settled('it is delivered');
  const [call, ...more] = receiver.calls;
  assert.equal(more.length, 0);
  assert.deepEqual([call?.method, call?.path, call?.text], ['POST', '/cb?k=1', '{"update_id":"u"}']);
  assert.equal(call?.headers['content-type'], 'application/json');
  assert.deepEqual(setup.sender.counts, { queued: 0, delivered: 1, failed: 0, dropped: 0, last_error: null });
});

test('an answer of 500 and above, or a cut connection, is tried again, four times in all', async () => {
  await using receiver = await startCallbackReceiver();
  await using setup = startSender();
  receiver.answer('/heals', 503, 'cut', 500, 204);
  receiver.answer('/stays', 503);
  setup.send(`${receiver.url}/heals`);
  setup.send(`${receiver.url}/stays?key=s3cret`);
  receiver.answer('/stays?key=s3cret', 503);
  await setup.settled('both have ended');
  assert.equal(receiver.at('/heals').length, 4);
  assert.equal(receiver.at('/stays?key=s3cret').length, 4);
  const { delivered, failed, last_error } = setup.sender.counts;
  assert.deepEqual([delivered, failed], [1, 1]);
  assert.equal(last_error, `POST ${receiver.url}/stays?***: answered 503`);
  assert.match(setup.log(), /a report was not delivered/);
  assert.doesNotMatch(setup.log(), /s3cret/);
});

test('an answer below 500 that refuses is not tried again', async () => {
  await using receiver = await startCallbackReceiver();
  await using setup = startSender();
  for (const status of [400, 401, 404, 429]) {
    receiver.answer(`/${status}`, status);
    setup.send(`${receiver.url}/${status}`);
  }
  await setup.settled('all have ended');
  assert.equal(receiver.calls.length, 4);
  assert.equal(setup.sender.counts.failed, 4);
});

test('a receiver that never answers is given up after its time, and holds up no other', async () => {
  await using silent = await startCallbackReceiver();
  await using receiver = await startCallbackReceiver();
  await using setup = startSender({ timeoutMs: 300 });
  silent.answer('/cb', 'silent');
  for (let count = 0; count < 50; count++) setup.send(`${silent.url}/cb`);
  for (let count = 0; count < 50; count++) setup.send(`${receiver.url}/cb`);
  await until(() => receiver.calls.length === 50, { withinMs: 20_000, what: 'the other one has all its reports' });
  assert(silent.calls.length < 50, 'the silent one did not have all of its own before');
  await until(() => setup.log().includes('no answer within 0.3 s'), { withinMs: 20_000, what: 'it is given up' });
});

test('redirects are followed with the report; the token stays at its own server', async () => {
  await using other = await startCallbackReceiver();
  await using receiver = await startCallbackReceiver();
  await using setup = startSender({ own: { url: receiver.url, token: new Secret('t0ken') } });
  receiver.answer('/away', { redirect: `${other.url}/cb` });
  receiver.answer('/near', { redirect: '/here', status: 302 });
  receiver.answer('/taken', { redirect: '/page', status: 303 });
  receiver.answer('/circle', { redirect: '/circle' });
  receiver.answer('/nowhere', { redirect: 'ftp://x/' });
  for (const path of ['away', 'near', 'taken', 'circle', 'nowhere'])
    setup.send(`${receiver.url}/${path}`, '{"a":1}', true);
  await setup.settled('all have ended');
  assert.deepEqual(
    other.calls.map(({ method, text, headers }) => [method, text, headers.authorization]),
    [['POST', '{"a":1}', undefined]],
  );
  assert.equal(receiver.at('/away')[0]?.headers.authorization, 'Bearer t0ken');
  assert.deepEqual(
    receiver.at('/here').map(({ method, text, headers }) => [method, text, headers.authorization]),
    [['POST', '{"a":1}', 'Bearer t0ken']],
  );
  assert.equal(receiver.at('/page').length, 0);
  assert.equal(receiver.at('/circle').length, 6);
  assert.deepEqual([setup.sender.counts.delivered, setup.sender.counts.failed], [3, 2]);
  assert.doesNotMatch(setup.log(), /t0ken/);
});

test('what waits is bounded: the oldest report is dropped, and counted', async () => {
  await using receiver = await startCallbackReceiver();
  await using setup = startSender({ queue: { deliveries: 5, chars: 1000 } });
  receiver.answer('/cb', 'silent');
  for (let count = 0; count < 8; count++) setup.send(`${receiver.url}/cb`, JSON.stringify(count));
  assert.equal(setup.sender.counts.queued, 5);
  assert.equal(setup.sender.counts.dropped, 3);
  assert.match(setup.log(), /the oldest are dropped/);
  setup.send(`${receiver.url}/cb`, JSON.stringify('x'.repeat(998)));
  const { queued, dropped } = setup.sender.counts;
  assert(queued >= 1 && queued <= 3, `${queued} are left: the large one and what is under way`);
  assert.equal(dropped, 9 - queued);
});

test('closing ends what waits and what is under way, at once, and nothing is sent after it', async () => {
  await using receiver = await startCallbackReceiver();
  await using setup = startSender({ timeoutMs: 3_600_000, backoff: { minMs: 3_600_000, maxMs: 3_600_000 } });
  receiver.answer('/silent', 'silent');
  receiver.answer('/failing', 503);
  for (const path of ['silent', 'silent', 'silent', 'failing']) setup.send(`${receiver.url}/${path}`);
  await until(() => receiver.at('/silent').length > 0, { withinMs: 20_000, what: 'one is under way' });
  await setup.sender.close();
  setup.send(`${receiver.url}/late`);
  await setup.sender.close();
  assert.equal(setup.sender.counts.queued, 0);
  assert.equal(receiver.at('/late').length, 0);
});

test('each target is called with its own method and headers', async () => {
  await using receiver = await startCallbackReceiver();
  await using setup = startSender();
  const config = completeConfig({ method: 'put', headers: { 'X-Key': 'k', authorization: 'Own a' } });
  setup.sender.send({ url: `${receiver.url}/cb`, config }, '{"a":1}', null, false);
  setup.sender.send({ url: `${receiver.url}/get`, config: completeConfig({ method: 'get' }) }, '{"a":1}', null, false);
  await setup.settled('both are delivered');
  const [call] = receiver.at('/cb');
  assert.deepEqual([call?.method, call?.text], ['PUT', '{"a":1}']);
  assert.equal(call?.headers['x-key'], 'k');
  assert.equal(call?.headers.authorization, 'Own a');
  assert.deepEqual(
    receiver.at('/get').map(({ method, text }) => [method, text]),
    [['GET', '{"a":1}']],
  );
});
