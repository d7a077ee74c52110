import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { gatheredIo } from '../../../test/support/command-io.js';
import { UsageError } from './run-program.js';
import { checkedUrl, serverTarget, serverUrlOf } from './server-target.js';

/** The message of what a call throws. */
function refusal(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    assert(error instanceof UsageError);
    return error.message;
  }
  return 'nothing';
}

describe('the server that a command asks', () => {
  it('is a URL with http or https, and what was meant is named', () => {
    const rule = 'must start with http:// or https://';
    for (const [given, said] of [
      ['localhost:7002', `${rule} (is "localhost:7002"); http://localhost:7002 may be meant`],
      ['127.0.0.1:7002', `${rule} (is "127.0.0.1:7002"); http://127.0.0.1:7002 may be meant`],
      ['sync.example', `${rule} (is "sync.example"); http://sync.example may be meant`],
      ['wss://sync.example/a', `${rule} (is "wss://sync.example/a"); https://sync.example/a may be meant`],
      ['file:///etc/passwd', `${rule} (is "file:///etc/passwd")`],
      ['http://h:99999', 'must be a URL (is "http://h:99999")'],
    ] as const) {
      assert.equal(
        refusal(() => serverTarget({ serverUrl: given }, gatheredIo())),
        `--server-url ${said}`,
      );
      assert.equal(
        refusal(() => serverUrlOf(given, gatheredIo())),
        `--server-url ${said}`,
      );
      assert.equal(
        refusal(() => checkedUrl(given, '--against')),
        `--against ${said}`,
      );
    }
    assert.equal(serverTarget({ serverUrl: 'https://sync.example/a/' }, gatheredIo()).url, 'https://sync.example/a');
  });

  it('is named as it was given, without its secrets', () => {
    assert.match(
      refusal(() => serverTarget({}, gatheredIo({ SYNC_SERVER_URL: 'localhost:7002' }))),
      /^SYNC_SERVER_URL must start/,
    );
    const secret = refusal(() => serverTarget({ serverUrl: 'wss://bob:hush@sync.example' }, gatheredIo()));
    assert.match(secret, /^--server-url must start with http:/);
    assert.doesNotMatch(secret, /hush|meant/);
  });
});
