import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:http';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import { until } from '../../../../test/support/until.js';
import { EngineRefusal } from '../../../embedded/vocabulary.js';
import { SyncError } from '../../../lib/errors.js';
import { aborted } from '../../../lib/run/async.js';
import { parseDocPath } from '../../../wire/doc-path.js';
import { type Body, bodyOfText } from '../../../wire/json-node.js';
import type { DataOp } from '../../desired/layers.js';
import type { ArrivingBody } from '../../fetch/arriving-file.js';
import type { EngineAuth } from './engine-auth.js';
import { OpaRest, opaProblems } from './opa-rest.js';

/** One answer of the stand-in: a status, a body, or nothing at all. */
type Reply = { status: number; body?: string } | 'silence' | 'hang up';

/**
 * A stand-in for an engine, which answers as it is told (204 otherwise) and remembers what it was
 * asked.
 */
async function standIn(
  reply: (request: string, authorization: string | undefined) => Reply | undefined,
  timeoutMs = 10_000,
  /** An answer that does not wait for the body. */
  replyEarly: (request: string) => { status: number } | undefined = () => undefined,
) {
  const requests: string[] = [];
  /** Requests that have arrived, whole or not; those that broke off. */
  const begun: string[] = [];
  const torn: string[] = [];
  const server: Server = createServer((request, response) => {
    const line = `${request.method} ${request.url}`;
    begun.push(line);
    const early = replyEarly(line);
    if (early !== undefined) {
      response.writeHead(early.status, { connection: 'close' }).end();
      return;
    }
    text(request).then(
      (body) => {
        requests.push(body === '' ? line : `${line} ${body}`);
        const answer = reply(line, request.headers.authorization) ?? { status: 204 };
        if (answer === 'hang up') request.socket.destroy();
        else if (answer !== 'silence') response.writeHead(answer.status).end(answer.body);
      },
      () => torn.push(line),
    );
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  assert(address !== null && typeof address === 'object');
  const url = `http://127.0.0.1:${address.port}`;
  const rest = new OpaRest({ url, timeoutMs });
  return {
    url,
    rest,
    requests,
    begun,
    torn,
    [Symbol.asyncDispose]: async () => {
      await rest.close();
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

const { signal } = new AbortController();
const put = (path: string, value: string): DataOp => ({ op: 'put', path: parseDocPath(path), text: () => value });
const remove = (path: string): DataOp => ({ op: 'remove', path: parseDocPath(path) });

describe('objects that may be left', () => {
  const shells = (...paths: string[]): string[][] => paths.map((path) => [...parseDocPath(path)]);

  it('go where they hold nothing but each other, and others stay', async () => {
    await using opa = await standIn((line) => {
      if (line === 'GET /v1/data/a') return { status: 200, body: '{"result":{"b":{},"c":{"d":{}}}}' };
      if (line === 'GET /v1/data/x') return { status: 200, body: '{"result":{"y":{},"foreign":{}}}' };
      return line.startsWith('GET') ? { status: 200, body: '{}' } : undefined;
    });
    await opa.rest.removeShells(shells('/a/c/d', '/a/c', '/a/b', '/a', '/x/y', '/x', '/gone'), signal);
    const [, , , ...deleted] = opa.requests;
    assert.deepEqual(opa.requests.slice(0, 3).toSorted(), ['GET /v1/data/a', 'GET /v1/data/gone', 'GET /v1/data/x']);
    assert.deepEqual(deleted, ['DELETE /v1/data/a', 'DELETE /v1/data/x/y']);
  });

  it('stay where the engine cannot say what they hold, or nothing is written at the path; a failure is one', async () => {
    await using opa = await standIn((line) => {
      if (line === 'GET /v1/data/rule') return { status: 500, body: '{"code":"internal_error","message":"eval"}' };
      return line === 'GET /v1/data/away' ? { status: 502, body: 'a proxy' } : undefined;
    });
    await opa.rest.removeShells([['rule'], ['']], signal);
    assert.deepEqual(opa.requests, ['GET /v1/data/rule']);
    await assert.rejects(opa.rest.removeShells(shells('/away'), signal), { code: 'engine_unreachable' });
  });
});

describe('a change of several things at once', () => {
  const CHANGES = [
    { op: 'replace', path: ['system', 'a%41'], text: '[]' } as const,
    { op: 'remove', path: ['x'] } as const,
  ];

  it('is one transaction', async () => {
    await using opa = await standIn(() => undefined);
    assert.equal(await opa.rest.change(CHANGES, signal), true);
    assert.deepEqual(opa.requests, [
      'PATCH /v1/data [{"op":"replace","path":"/system/a%2541","value":[]},{"op":"remove","path":"/x"}]',
    ]);
  });

  it('is none where OPA refuses it, or would read a path as another one', async () => {
    for (const status of [400, 404]) {
      await using opa = await standIn(() => ({ status, body: '{"message":"path x is owned by bundle \\"policy\\""}' }));
      assert.equal(await opa.rest.change(CHANGES, signal), false);
    }
    await using opa = await standIn(() => undefined);
    assert.equal(await opa.rest.change([{ op: 'remove', path: ['', 'x'] }], signal), false);
    assert.deepEqual(opa.requests, []);
  });

  it('is refused where a rule has the place, and fails where OPA does not answer for it', async () => {
    const message = '1 error occurred: app.rego:3: rego_compile_error: conflicting rule for data path app/x found';
    await using opa = await standIn(() => ({
      status: 400,
      body: JSON.stringify({ code: 'invalid_parameter', message }),
    }));
    await assert.rejects(opa.rest.change(CHANGES, signal), (error: unknown) => {
      assert(error instanceof EngineRefusal);
      assert.deepEqual(error.problems, [
        { message: 'conflicting rule for data path app/x found', file: 'app.rego', row: 3, conflictPath: ['app', 'x'] },
      ]);
      return true;
    });
    await using away = await standIn(() => ({ status: 503, body: 'a proxy' }));
    await assert.rejects(away.rest.change(CHANGES, signal), { code: 'engine_unreachable' });
  });
});

describe('a write', () => {
  it('of nothing asks nothing', async () => {
    await using opa = await standIn(() => undefined);
    await opa.rest.write([], signal);
    assert.deepEqual(opa.requests, []);
  });

  it('of one document is one put, its bytes as they are', async () => {
    await using opa = await standIn(() => undefined);
    await opa.rest.write([put('/a b/c%2541d', '{"n":1.0}')], signal);
    const body = bodyOfText('[12345678901234567890]');
    await opa.rest.write([{ op: 'put', path: ['x'], text: () => assert.fail('read whole'), body }], signal);
    assert.deepEqual(opa.requests, ['PUT /v1/data/a%20b/c%2541d {"n":1.0}', 'PUT /v1/data/x [12345678901234567890]']);
  });

  it('of one removal is one, and what is not there is removed', async () => {
    await using opa = await standIn(() => ({ status: 404, body: '{"code":"resource_not_found"}' }));
    await opa.rest.write([remove('/a')], signal);
    assert.deepEqual(opa.requests, ['DELETE /v1/data/a']);
  });

  it('at a path that no URL leads to is a patch, with the parents that are missing', async () => {
    await using opa = await standIn((line) =>
      line.startsWith('POST') ? { status: 200, body: '{"result":[{"x":0}]}' } : undefined,
    );
    await opa.rest.write([{ op: 'put', path: ['%', 'a/b', '~%41'], text: () => '1.0' }], signal);
    await opa.rest.write([{ op: 'remove', path: ['a/b'] }], signal);
    assert.deepEqual(opa.requests.slice(-2), [
      'PATCH /v1/data [{"op":"add","path":"/%25","value":{"a/b":{"~%41":1.0}}}]',
      'PATCH /v1/data [{"op":"remove","path":"/a~1b"}]',
    ]);
  });

  it('of several is one transaction, after their parents were made, which is done once', async () => {
    await using opa = await standIn((line) => (line === 'PUT /v1/data/d' ? { status: 304 } : undefined));
    const ops = [put('/a', '1'), put('/d/e~f', '2.0'), put('/d/g%2Fh', '3'), remove('/x/y')];
    await opa.rest.write(ops, signal);
    const patch =
      'PATCH /v1/data [{"op":"add","path":"/a","value":1},{"op":"add","path":"/d/e~0f","value":2.0},{"op":"add","path":"/d/g~1h","value":3},{"op":"remove","path":"/x/y"}]';
    assert.deepEqual(opa.requests, ['PUT /v1/data/d {}', patch]);
    await opa.rest.write(ops, signal);
    assert.deepEqual(opa.requests.slice(2), [patch]);
  });

  it('makes parents again that were removed, and after the engine has started anew', async () => {
    await using opa = await standIn(() => undefined);
    const two = [put('/d/e/f', '1'), put('/a', '1')];
    const parents = async (): Promise<number> => {
      const before = opa.requests.length;
      await opa.rest.write(two, signal);
      return opa.requests.slice(before).filter((line) => line.startsWith('PUT /v1/data/d/e')).length;
    };
    assert.deepEqual([await parents(), await parents()], [1, 0]);
    await opa.rest.write([remove('/d')], signal);
    assert.deepEqual([await parents(), await parents()], [1, 0]);
    opa.rest.reset();
    assert.deepEqual([await parents(), await parents()], [1, 0]);
  });

  it('goes one by one where something to remove is gone already', async () => {
    await using opa = await standIn((line) =>
      line.startsWith('PATCH') || line.startsWith('DELETE') ? { status: 404, body: '{}' } : undefined,
    );
    await opa.rest.write([put('/a', '1'), remove('/b')], signal);
    assert.deepEqual(opa.requests.slice(1), ['PUT /v1/data/a 1', 'DELETE /v1/data/b']);
  });
});

describe('an answer that is no success', () => {
  const CONFLICT = 'rego_compile_error: conflicting rule for data path a/b found';

  it('of 400 is a refusal with file, line and the document at fault', async () => {
    const body = { code: 'invalid_parameter', message: `1 error occurred: policy/x.rego:7: ${CONFLICT}` };
    await using opa = await standIn(() => ({ status: 400, body: JSON.stringify(body) }));
    await assert.rejects(opa.rest.write([put('/a', '1')], signal), (error) => {
      assert(error instanceof EngineRefusal);
      assert.match(error.message, /^PUT \/v1\/data\/a answered 400: /);
      assert.deepEqual(
        error.problems.map(({ file, row, conflictPath }) => ({ file, row, conflictPath })),
        [{ file: 'policy/x.rego', row: 7, conflictPath: ['a', 'b'] }],
      );
      return true;
    });
  });

  it('of 400 with a list of errors has each', async () => {
    const errors = [
      { message: 'var x is unsafe', location: { file: '/a.rego', row: 3 } },
      { message: 'conflicting rule for data path c found', location: null },
    ];
    await using opa = await standIn(() => ({ status: 400, body: JSON.stringify({ message: 'm', errors }) }));
    await assert.rejects(opa.rest.putPolicy('a/b c.rego', 'x', signal), (error) => {
      assert(error instanceof EngineRefusal);
      assert.deepEqual(error.problems, [
        { message: 'var x is unsafe', file: 'a.rego', row: 3 },
        { message: 'conflicting rule for data path c found', conflictPath: ['c'] },
      ]);
      return true;
    });
    assert.deepEqual(opa.requests, ['PUT /v1/policies/a/b%20c.rego x']);
  });

  for (const status of [301, 404, 405, 413, 414]) {
    it(`of ${status} is a refusal, whoever answers it`, async () => {
      await using opa = await standIn(() => ({ status, body: '<html>' }));
      await assert.rejects(opa.rest.write([put('/a', '1')], signal), EngineRefusal);
    });
  }

  for (const status of [401, 409, 429, 500, 503]) {
    it(`of ${status} is tried again, and shows what a proxy said`, async () => {
      await using opa = await standIn(() => ({ status, body: `<html>${'x'.repeat(5000)}` }));
      await assert.rejects(opa.rest.write([put('/a', '1')], signal), (error) => {
        assert(error instanceof SyncError && error.retryable);
        assert.equal(error.code, status === 401 ? 'engine_unauthorized' : 'engine_unreachable');
        assert.match(error.message, /<html>/);
        assert(error.message.length < 400);
        return true;
      });
    });
  }

  it('of 401 is tried once more when there are newer credentials, with the whole body', async () => {
    const seen: string[] = [];
    await using opa = await standIn(() => ({ status: seen.length === 1 ? 401 : 204, body: '' }));
    const auth: EngineAuth = {
      authorization: async () => {
        seen.push(`token-${seen.length + 1}`);
        return `Bearer ${seen.at(-1)}`;
      },
      renew: (refused) => refused === 'Bearer token-1',
      close: async () => undefined,
    };
    const rest = new OpaRest({ url: opa.url, timeoutMs: 3000, auth });
    const body = { ...bodyOfText('42'), stream: () => Readable.from(['4', '2']) };
    await rest.write([{ op: 'put', path: ['a'], text: () => '42', body }], signal);
    assert.deepEqual(opa.requests, ['PUT /v1/data/a 42', 'PUT /v1/data/a 42']);
    assert.deepEqual(seen, ['token-1', 'token-2']);
    await rest.close();
  });

  for (const reply of ['silence', 'hang up'] as const) {
    it(`of ${reply} is tried again`, async () => {
      await using opa = await standIn(() => reply, 300);
      await assert.rejects(opa.rest.getData(['a'], signal), { code: 'engine_unreachable', retryable: true });
    });
  }

  it('is none where the caller has stopped: that is an abort', async () => {
    await using opa = await standIn(() => 'silence', 300);
    const stop = new AbortController();
    const asked = opa.rest.getData(['a'], stop.signal);
    stop.abort();
    await assert.rejects(asked, { name: 'AbortError' });
  });
});

/** A document that has come up to its last byte. */
function arrivingBody(text: string) {
  let release: (() => void) | undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const body = { ...bodyOfText(text), stream: () => assert.fail('sent anew') };
  let isRead = false;
  const arriving: ArrivingBody = {
    body,
    async *pieces(signal) {
      isRead = true;
      try {
        yield Buffer.from(text.slice(0, -1));
        await Promise.race([released, aborted(signal)]);
        signal.throwIfAborted();
        yield Buffer.from(text.slice(-1));
      } finally {
        isRead = false;
      }
    },
    release: () => release?.(),
  };
  return { body, arriving, plain: { ...body, stream: () => text }, isRead: () => isRead };
}

describe('a document that is expected', () => {
  const write = (body: Body, at = 'a'): DataOp => ({ op: 'put', path: [at], text: () => body.text(), body });

  it('is with the engine before it is written, which takes its end alone', async () => {
    await using opa = await standIn(() => undefined);
    const { body, arriving } = arrivingBody('{"n":1}');
    opa.rest.prepareUpload(['a'], arriving);
    await until(() => opa.begun.includes('PUT /v1/data/a'), { withinMs: 20_000, what: 'it is sent' });
    await opa.rest.write([put('/b', '2')], signal);
    assert.deepEqual(opa.requests, ['PUT /v1/data/b 2']);
    await opa.rest.write([write(body)], signal);
    assert.deepEqual(opa.requests, ['PUT /v1/data/b 2', 'PUT /v1/data/a {"n":1}']);
    assert.equal(opa.begun.length, 2);
  });

  it('is of no use for another body, or another place', async () => {
    await using opa = await standIn(() => undefined);
    const { plain, arriving } = arrivingBody('{"n":1}');
    opa.rest.prepareUpload(['a'], arriving);
    await opa.rest.write([write(bodyOfText('2'))], signal);
    await opa.rest.write([write(plain, 'b')], signal);
    assert.deepEqual(opa.requests, ['PUT /v1/data/a 2', 'PUT /v1/data/b {"n":1}']);
  });

  it('is written anew where the engine took none of it', async () => {
    let refusals = 0;
    await using opa = await standIn(
      () => undefined,
      10_000,
      (line) => (line === 'PUT /v1/data/a' && refusals++ === 0 ? { status: 413 } : undefined),
    );
    const { plain, arriving, isRead } = arrivingBody('{"n":1}');
    opa.rest.prepareUpload(['a'], { ...arriving, body: plain });
    await until(() => refusals === 1, { withinMs: 20_000, what: 'it is refused' });
    await until(() => !isRead(), { withinMs: 20_000, what: 'nobody reads it along any more' });
    await opa.rest.write([write(plain)], signal);
    assert.deepEqual(opa.requests, ['PUT /v1/data/a {"n":1}']);
  });

  it('is written anew with newer credentials', async () => {
    let token = 'old';
    const auth: EngineAuth = {
      authorization: async () => token,
      renew: () => {
        token = 'new';
        return true;
      },
      close: async () => undefined,
    };
    await using opa = await standIn((_line, authorization) => ({ status: authorization === 'new' ? 204 : 401 }));
    const rest = new OpaRest({ url: opa.url, timeoutMs: 10_000, auth });
    const { plain, arriving } = arrivingBody('{"n":1}');
    rest.prepareUpload(['a'], { ...arriving, body: plain });
    await until(() => opa.begun.length === 1, { withinMs: 20_000, what: 'it is sent' });
    await rest.write([write(plain)], signal);
    assert.deepEqual(opa.requests, Array(3).fill('PUT /v1/data/a {"n":1}'));
    await rest.close();
  });

  it('whose end gets no answer leaves the outcome open, and is taken back', async () => {
    await using opa = await standIn(() => 'silence', 300);
    const { body, arriving } = arrivingBody('{"n":1}');
    opa.rest.prepareUpload(['a'], arriving);
    await until(() => opa.begun.length === 1, { withinMs: 20_000, what: 'it is sent' });
    await assert.rejects(opa.rest.write([write(body)], signal), {
      code: 'engine_unreachable',
      message: /did not answer PUT \/v1\/data\/a within 300 ms/,
    });
  });

  it('is taken back when the engine starts anew, and when nobody asks any more', async () => {
    await using opa = await standIn(() => undefined);
    for (const end of [() => opa.rest.reset(), () => opa.rest.close()]) {
      const torn = opa.torn.length;
      opa.rest.prepareUpload(['a'], arrivingBody('{"n":1}').arriving);
      await until(() => opa.begun.length > torn, { withinMs: 20_000, what: 'it is sent' });
      await end();
      await until(() => opa.torn.length > torn, { withinMs: 20_000, what: 'the engine sees it end' });
    }
    assert.deepEqual(opa.requests, []);
  });
});

describe('a read', () => {
  it('of a document is its text, undefined where there is none', async () => {
    await using opa = await standIn((line) => ({
      status: 200,
      body: line.endsWith('/a') ? '{"result":{"b":[1]}}' : '{}',
    }));
    assert.deepEqual(
      [await opa.rest.getData(['a'], signal), await opa.rest.getData(['b'], signal)],
      ['{"b":[1]}', undefined],
    );
  });

  it('of the policies is their ids and texts', async () => {
    await using opa = await standIn(() => ({
      status: 200,
      body: '{"result":[{"id":"a","raw":"package a","ast":{}},{"id":"b"}]}',
    }));
    assert.deepEqual(await opa.rest.listPolicies(signal), [
      { id: 'a', raw: 'package a' },
      { id: 'b', raw: '' },
    ]);
  });

  it('removing a policy that is not there succeeds', async () => {
    await using opa = await standIn(() => ({ status: 404, body: '{}' }));
    await opa.rest.deletePolicy('gone.rego', signal);
  });
});

it('an engine that cannot be reached is named without the password of its address', async () => {
  const rest = new OpaRest({ url: 'http://me:secret@127.0.0.1:1', timeoutMs: 1000 });
  await assert.rejects(rest.getData(['a'], signal), {
    code: 'engine_unreachable',
    message: 'the policy engine at http://***@127.0.0.1:1 cannot be reached for GET /v1/data/a',
  });
  await rest.close();
});

describe('problems in the words of OPA', () => {
  it('have the file without a leading slash, and no place where there is none', () => {
    assert.deepEqual(opaProblems([{ message: 'm', location: { file: './a/b.rego', row: 1 } }]), [
      { message: 'm', file: 'a/b.rego', row: 1 },
    ]);
    assert.deepEqual(opaProblems([{ message: 'm', location: { file: '' } }, { message: 'n' }]), [
      { message: 'm' },
      { message: 'n' },
    ]);
  });
});
