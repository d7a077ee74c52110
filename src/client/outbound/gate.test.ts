import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../lib/errors.js';
import { type GateOptions, OutboundGate } from './gate.js';

const NAMES: Record<string, string[]> = {
  'api.example': ['93.184.216.34'],
  'inside.example': ['10.1.2.3'],
  'engine.example': ['127.0.0.1'],
  'mapped.example': ['::ffff:127.0.0.1'],
  'both.example': ['127.0.0.1', '10.1.2.3'],
  'meta.example': ['169.254.169.254'],
  'opa.internal': ['10.9.9.9'],
};

function gateOf(options: Partial<GateOptions> = {}, names = NAMES): OutboundGate {
  const lookUp = async (host: string) => {
    const found = names[host];
    if (found === undefined) throw new Error(`${host} is not known`);
    return found.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  };
  return new OutboundGate(options, { lookUp, localAddresses: () => ['192.168.1.5'] });
}

/** `ok`, or the reason of the refusal. */
async function verdict(gate: OutboundGate, host: string, port = 80): Promise<string> {
  return gate.addresses({ host, port }).then(
    () => 'ok',
    (error: unknown) => {
      assert(error instanceof SyncError && error.code === 'address_refused', String(error));
      assert.equal(error.retryable, / \(.*\): /.test(error.message.slice(0, 80)), 'names may lead elsewhere later');
      return error.message;
    },
  );
}

test('an engine on this machine is refused under every spelling of its address, its name, and no other port', async () => {
  for (const listens of ['127.0.0.1', 'localhost', '::1', '0.0.0.0', '192.168.1.5']) {
    const gate = gateOf();
    gate.protect('the engine', { host: listens, port: 8181 });
    for (const host of [
      ...['127.0.0.1', '127.9.9.9', '[::1]', '0.0.0.0', '::', '::ffff:127.0.0.1', '[::ffff:7f00:1]', '192.168.1.5'],
      ...['engine.example', 'ENGINE.example.', 'mapped.example', '::ffff:192.168.1.5'],
    ]) {
      assert.match(
        await verdict(gate, host, 8181),
        /it is the engine, .*\(no setting opens it\)/,
        `${listens} ${host}`,
      );
      assert.equal(await verdict(gate, host, 8182), 'ok');
    }
    assert.equal(await verdict(gate, '10.1.2.3', 8181), 'ok');
  }
});

test('an engine elsewhere is refused by name and by each address that the name has, or has had', async () => {
  const names: Record<string, string[]> = { ...NAMES };
  const gate = gateOf({}, names);
  gate.protect('the engine', { host: 'opa.internal', port: 8181 });
  assert.match(await verdict(gate, 'opa.internal.', 8181), /it is the engine/);
  assert.match(await verdict(gate, '10.9.9.9', 8181), /it is the engine/);
  assert.equal(await verdict(gate, '10.9.9.9', 80), 'ok');
  assert.equal(await verdict(gate, '127.0.0.1', 8181), 'ok');
  names['opa.internal'] = ['10.9.9.10'];
  assert.match(await verdict(gate, '10.9.9.10', 8181), /it is the engine/);
  assert.match(await verdict(gate, '10.9.9.9', 8181), /it is the engine/);
  const { 'opa.internal': _, ...without } = NAMES;
  const unknown = gateOf({}, without);
  unknown.protect('the engine', { host: 'opa.internal', port: 8181 });
  await assert.rejects(unknown.addresses({ host: '10.9.9.9', port: 8181 }), /opa\.internal is not known/);
});

test('no setting opens what is our own', async () => {
  const gate = gateOf({ fetchAllow: ['127.0.0.1', 'engine.example'] });
  gate.protect('the engine', { host: '127.0.0.1', port: 8181 });
  assert.match(await verdict(gate, '127.0.0.1', 8181), /it is the engine/);
  assert.match(await verdict(gate, 'engine.example', 8181), /it is the engine/);
});

test('of several addresses only those that may be reached are answered', async () => {
  const gate = gateOf();
  gate.protect('the engine', { host: '127.0.0.1', port: 8181 });
  const found = await gate.addresses({ host: 'both.example', port: 8181 });
  assert.deepEqual(found, [{ address: '10.1.2.3', family: 4 }]);
});

test('link-local and metadata addresses are refused unless SYNC_FETCH_ALLOW has them by address', async () => {
  const refused = /link-local or metadata address, which only SYNC_FETCH_ALLOW opens, by address/;
  for (const host of ['169.254.169.254', 'meta.example', 'fe80::1%eth0', 'fd00:ec2::254', '100.100.100.200']) {
    assert.match(await verdict(gateOf(), host), refused, host);
  }
  assert.match(await verdict(gateOf({ fetchAllow: ['.example', '0.0.0.0/0'] }), 'meta.example'), refused);
  for (const item of ['169.254.169.254', '169.254.0.0/16', '169.254.169.0/24']) {
    assert.equal(await verdict(gateOf({ fetchAllow: [item] }), 'meta.example'), 'ok', item);
  }
});

test('loopback and private networks may be reached; with SYNC_FETCH_ALLOW only what it lists; SYNC_FETCH_DENY wins', async () => {
  for (const host of ['127.0.0.1', '10.1.2.3', 'inside.example', '192.168.1.5']) {
    assert.equal(await verdict(gateOf(), host), 'ok', host);
  }
  const allowing = gateOf({ fetchAllow: ['api.example', '10.0.0.0/8:80'] });
  assert.equal(await verdict(allowing, 'api.example'), 'ok');
  assert.equal(await verdict(allowing, 'inside.example'), 'ok');
  assert.match(await verdict(allowing, 'inside.example', 81), /SYNC_FETCH_ALLOW does not list it/);
  assert.match(await verdict(allowing, '127.0.0.1'), /SYNC_FETCH_ALLOW does not list it/);
  const denying = gateOf({ fetchAllow: ['.example'], fetchDeny: ['api.example', '10.0.0.0/8'] });
  assert.match(await verdict(denying, 'api.example'), /SYNC_FETCH_DENY has api\.example/);
  assert.match(
    await verdict(denying, 'inside.example'),
    /inside\.example:80 \(10\.1\.2\.3\): SYNC_FETCH_DENY has 10\.0/,
  );
  assert.equal(await verdict(denying, 'engine.example'), 'ok');
});

test('through a proxy the name, or the address as it is written, decides', async () => {
  const told = async (gate: OutboundGate, host: string, port = 80): Promise<string> =>
    gate.checkProxied({ host, port }).then(
      () => 'ok',
      (error: unknown) => String(error),
    );
  const gate = gateOf({ fetchDeny: ['.denied.example'] });
  gate.protect('the engine', { host: 'opa.internal', port: 8181 });
  assert.match(await told(gate, 'opa.internal', 8181), /it is the engine/);
  assert.match(await told(gate, '10.9.9.9', 8181), /it is the engine/);
  assert.match(await told(gate, 'x.denied.example'), /SYNC_FETCH_DENY/);
  gate.protect('the API', { host: '127.0.0.1', port: 7000 });
  assert.match(await told(gate, 'engine.example', 7000), /it is the API/);
  assert.equal(await told(gate, 'engine.example', 7001), 'ok');
  assert.equal(await told(gate, 'not-known-here.example', 7000), 'ok');
  assert.match(await told(gate, '169.254.169.254'), /link-local/);
  assert.match(await told(gate, 'metadata.google.internal'), /link-local/);
  assert.equal(await told(gate, 'not-known-here.example'), 'ok');
  assert.match(await told(gateOf({ fetchAllow: ['10.0.0.0/8'] }), 'api.example'), /SYNC_FETCH_ALLOW does not list/);
  assert.equal(await told(gateOf({ fetchAllow: ['10.0.0.0/8'] }), '10.1.2.3'), 'ok');
});

test('methods beyond GET and POST are for the settings to allow', () => {
  assert.equal(gateOf().methodProblem('GET'), undefined);
  assert.match(gateOf().methodProblem('PUT') ?? '', /PUT is not sent: SYNC_FETCH_METHODS has only GET, POST/);
  assert.equal(gateOf({ fetchMethods: ['PUT'] }).methodProblem('PUT'), undefined);
});
