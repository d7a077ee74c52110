import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GoProgram } from '../artifact.js';
import { GoOpa } from './go-opa.js';

/** A program in place of Go's: `query` never answers, and `parse` does this. */
function programWhose(parse: string): GoProgram {
  const exec = `globalThis.Go = class {
    importObject = {};
    run() {
      return new Promise((end, fail) => {
        globalThis.engineHost.ready({ opaVersion: '1', query: () => undefined, parse: () => { ${parse} } });
      });
    }
  };`;
  return { exec, module: new WebAssembly.Module(Uint8Array.of(0, ...Buffer.from('asm'), 1, 0, 0, 0)) };
}

for (const [what, parse, expected] of [
  ['throws', 'throw new RangeError("too deep")', { isCrash: true, message: "OPA's Go code crashed: too deep" }],
  ['fails', 'fail(new Error("unreachable"))', { isCrash: true, message: "OPA's Go code crashed: unreachable" }],
  ['exits', 'this.exit(2)', { isCrash: false, message: "OPA's Go code ended with code 2: " }],
  ['returns', 'end()', { isCrash: false, message: "OPA's Go code ended: " }],
] as const) {
  test(`a program that ${what} amid a call: all calls and its end have one failure, which tells a crash`, async () => {
    const opa = await GoOpa.start({ program: programWhose(parse) });
    const waiting = opa.query('x', undefined, false);
    const failed = await Promise.allSettled([waiting, opa.parse([], 1)]);
    const failure = await opa.ended;
    assert.deepEqual({ isCrash: failure.isCrash, message: failure.message }, expected);
    assert.equal(failure.kind, 'ended');
    for (const call of failed) assert.equal(call.status === 'rejected' && call.reason, failure);
    await assert.rejects(opa.query('x', undefined, false), (error) => error === failure);
  });
}
