import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { makeAuthority, type TestAuthority } from '../support/certificates.js';
import { type CommandResult, runCommand, type StartedCommand, startCommand } from '../support/command.js';
import { freePort } from '../support/opa.js';
import { runHere } from '../support/run-here.js';
import { tempDir } from '../support/temp-dir.js';

/** With the environment of the program that it asks, and nothing else. */
function healthcheck(args: readonly string[], env: Record<string, string>): Promise<CommandResult> {
  return runHere('policysync', ['healthcheck', ...args], env);
}

describe('policysync healthcheck', () => {
  let authority: TestAuthority;
  let state: Awaited<ReturnType<typeof tempDir>>;
  let server: StartedCommand;
  let client: StartedCommand;
  let ofServer: Record<string, string>;
  let ofClient: Record<string, string>;

  before(async () => {
    [authority, state] = await Promise.all([makeAuthority('health'), tempDir()]);
    const { cert, key } = await authority.issue('program');
    ofServer = {
      SYNC_SERVER_HOST: '0.0.0.0',
      SYNC_SERVER_BIND_PORT: String(await freePort()),
      SYNC_SERVER_TLS_CERT_FILE: cert,
      SYNC_SERVER_TLS_KEY_FILE: key,
      SYNC_SERVER_TLS_CA_FILE: authority.file,
      SYNC_ALLOWED_HOSTS: 'policies.example',
      SYNC_STATE_DIR: state.path,
    };
    // Its server is not there, so that it never gets a policy.
    ofClient = {
      SYNC_CLIENT_API_SERVER_PORT: String(await freePort()),
      SYNC_SERVER_URL: 'http://127.0.0.1:1',
      SYNC_ENGINE: 'external',
      SYNC_POLICY_STORE_URL: 'http://127.0.0.1:1',
    };
    server = startCommand('server', ['run'], ofServer);
    client = startCommand('client', ['run'], ofClient);
    await Promise.all([server.says(/sync server is listening/), client.says(/sync client is listening/)]);
  });

  after(async () => {
    await Promise.all([server?.[Symbol.asyncDispose](), client?.[Symbol.asyncDispose]()]);
    await Promise.all([authority?.[Symbol.asyncDispose](), state?.[Symbol.asyncDispose]()]);
  });

  it('asks a server that speaks TLS and demands certificates', async () => {
    // As a container runtime calls it.
    const asked = await runCommand('policysync', ['healthcheck', 'server'], ofServer);
    assert.deepEqual(asked, { code: 0, stdout: 'the server is ready\n', stderr: '' });
    assert.equal((await healthcheck(['server', '--live'], ofServer)).code, 0);
  });

  it('accepts no other certificate than that of the settings', async () => {
    const { cert, key } = await authority.issue('other');
    const env = { ...ofServer, SYNC_SERVER_TLS_CERT_FILE: cert, SYNC_SERVER_TLS_KEY_FILE: key };
    const { code, stderr } = await healthcheck(['server'], env);
    assert.equal(code, 1);
    assert.match(stderr, /does not answer: .*certificate/);
  });

  it('says why a client is not ready, and that it is alive', async () => {
    const { code, stdout, stderr } = await healthcheck(['client'], ofClient);
    assert.equal(code, 1);
    assert.equal(stdout, '');
    assert.match(stderr, /\/ready answers 503: unavailable \(.+\)\nWhat to do: .*\[unhealthy\]\n/);
    const live = await healthcheck(['client', '--live'], ofClient);
    assert.deepEqual(live, { code: 0, stdout: 'the client is alive\n', stderr: '' });
  });

  it('fails with 1, never 2, where nobody answers or a setting is wrong', async () => {
    const nobody = await healthcheck(['client'], { SYNC_CLIENT_API_SERVER_PORT: String(await freePort()) });
    assert.equal(nobody.code, 1);
    assert.match(nobody.stderr, /the client: http:\/\/127\.0\.0\.1:\d+\/ready does not answer: .+\[unhealthy\]/s);
    const wrong = await runCommand('policysync', ['healthcheck', 'server'], { SYNC_SERVER_BIND_PORT: 'x' });
    assert.equal(wrong.code, 1);
    assert.match(wrong.stderr, /SYNC_SERVER_BIND_PORT must be a number/);
    const unknown = await healthcheck(['server'], { SYNC_SERVER_BIND_PORT: '0' });
    assert.equal(unknown.code, 1);
    assert.match(unknown.stderr, /set a port/);
  });

  it('gives up on a program that stands still', async () => {
    client.process.kill('SIGSTOP');
    const { code, stderr } = await healthcheck(['client', '--live', '--timeout', '0.5'], ofClient);
    client.process.kill('SIGCONT');
    assert.equal(code, 1);
    assert.match(stderr, /no answer within 0\.5 s/);
  });
});
