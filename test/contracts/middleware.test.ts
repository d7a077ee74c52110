import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { describe, it } from 'node:test';
import express, { type Request } from 'express';
import { fastify } from 'fastify';
import type { Decider } from '../../src/client/decisions/decision.js';
import { Decisions } from '../../src/client/decisions/decisions.js';
import { SyncError } from '../../src/lib/errors.js';
import { silentLogger } from '../../src/lib/observe/log.js';
import { policyGuard as expressGuard } from '../../src/middleware/express.js';
import { policyGuard as fastifyGuard } from '../../src/middleware/fastify.js';
import type { GuardOptions } from '../../src/middleware/guard.js';
import { request } from '../support/http.js';

type Reply = string | undefined | SyncError;
type Options = Pick<GuardOptions<unknown>, 'decide' | 'isAllowed'> & {
  respond?: boolean;
  input?: 'own' | 'throws' | 'loops';
};

const AWAY = new SyncError('engine_unreachable', 'nobody there', { retryable: true, retryAfterSeconds: 7 });

/** A client whose engine answers what the test says. */
function world() {
  const state = { reply: 'true' as Reply, asked: [] as { path: string; input: unknown }[] };
  const decisions = new Decisions({}, { log: silentLogger() });
  decisions.attach({
    engine: {
      decide: ({ path, input }) => {
        state.asked.push({ path, input: input === undefined ? undefined : JSON.parse(input) });
        if (state.reply instanceof SyncError) throw state.reply;
        return { text: state.reply, by: 'compiled', policy: 'p' };
      },
    },
    ...{ isReady: () => true, isFilled: () => true, reason: () => undefined },
    ...{ policy: () => 'p', position: () => undefined, serverCutOffSinceMs: () => undefined },
  });
  return { state, client: decisions as Decider };
}

function optionsOf(client: Decider, { input, respond: _, ...options }: Options) {
  const user = (from: { headers: Readonly<Record<string, unknown>> }): unknown => from.headers['x-user'];
  const loop: { self?: unknown } = {};
  loop.self = loop;
  const own = {
    own: (_from: unknown, usual: { route: string | null }) => ({ only: usual.route }),
    throws: () => {
      throw new TypeError('a bug of the application');
    },
    loops: () => loop,
  };
  return { client, user, ...options, ...(input === undefined ? {} : { input: own[input] }) };
}

function routeOf(asked: { input: unknown } | undefined): unknown {
  return (asked?.input as { route: unknown } | undefined)?.route;
}

const SITES = {
  fastify: async (client: Decider, options: Options) => {
    const app = fastify();
    app.get('/early/:id', async ({ decision }) => ({ ran: decision?.id }));
    await app.register(fastifyGuard, {
      ...optionsOf(client, options),
      path: 'app/http/allow',
      ...(options.respond === true && {
        respond: (response, _request, reply) => reply.code(418).send({ instead: response.status }),
      }),
    });
    app.get('/documents/:id', async ({ decision }) => ({ ran: decision?.id }));
    app.post('/documents', { config: { policy: 'app/write/allow' } }, async ({ decision }) => ({ ran: decision?.id }));
    app.get('/open', { config: { policy: false } }, async ({ decision }) => ({ ran: decision?.id ?? 'open' }));
    return { url: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() };
  },
  express: async (client: Decider, options: Options) => {
    const app = express();
    const ran = (from: Request, to: express.Response): void => {
      to.json({ ran: from.decision?.id ?? 'open' });
    };
    const guard = (path: string) =>
      expressGuard<Request, express.Response>({
        ...optionsOf(client, options),
        path,
        ...(options.respond === true && {
          respond: (given, _request, response) => response.status(418).json({ instead: given.status }),
        }),
      });
    app.get('/open', ran);
    app.get('/documents/:id', guard('app/http/allow'), ran);
    app.get('/early/:id', expressGuard({ client, path: 'app/http/allow' }), ran);
    app.post('/documents', guard('app/write/allow'), ran);
    app.use(guard('app/http/allow'));
    app.use((error: unknown, _from: Request, to: express.Response, _next: unknown) => {
      to.status(500).json({ message: String(error) });
    });
    const server = app.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const close = async (): Promise<void> => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    };
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
  },
};

for (const [name, open] of Object.entries(SITES)) {
  describe(`the guard for ${name}`, () => {
    async function site(options: Options = {}) {
      const made = world();
      const { url, close } = await open(made.client, options);
      const ask = (path: string, init: Parameters<typeof request>[1] = {}) => request(`${url}${path}`, init);
      return { ...made, ask, [Symbol.asyncDispose]: close };
    }

    it('lets pass what the policy allows, with the id of the decision', async () => {
      await using at = await site();
      const { status, json, headers } = await at.ask('/documents/a%2Fb?x=1', { headers: { 'x-user': 'ann' } });
      assert.equal(status, 200);
      assert.deepEqual(json, { ran: headers.get('x-decision-id') });
      assert.deepEqual(at.state.asked, [
        {
          path: 'app/http/allow',
          input: {
            ...{ method: 'GET', path: ['documents', 'a/b'], route: '/documents/:id', params: { id: 'a/b' } },
            ...{ query: { x: '1' }, user: 'ann' },
          },
        },
      ]);
    });

    for (const reply of ['false', undefined, '{"allow":false}', '"true"']) {
      it(`answers 403 where the policy says ${reply}`, async () => {
        await using at = await site();
        at.state.reply = reply;
        const { status, json, headers } = await at.ask('/documents/7');
        const decision_id = headers.get('x-decision-id');
        const message = 'The policy does not allow this request.';
        assert.deepEqual([status, json], [403, { error: 'forbidden', message, decision_id }]);
        assert.match(decision_id ?? '', /^[0-9a-f-]{36}$/);
        assert.equal(headers.get('cache-control'), 'no-store');
      });
    }

    it('answers 503 where there is no decision, and never runs the handler', async () => {
      await using at = await site();
      at.state.reply = AWAY;
      const { status, json, headers } = await at.ask('/documents/7');
      const message = 'No decision about this request can be made now. Try again soon.';
      assert.deepEqual([status, json], [503, { error: 'no_decision', message, code: 'engine_unreachable' }]);
      assert.equal(headers.get('retry-after'), '7');
    });

    it('says nothing of trying again where that does not help', async () => {
      await using at = await site();
      at.state.reply = new SyncError('engine_address_in_use', 'the port is taken');
      const { status, json, headers } = await at.ask('/documents/7');
      const message = 'No decision about this request can be made.';
      assert.deepEqual([status, json], [503, { error: 'no_decision', message, code: 'engine_address_in_use' }]);
      assert.equal(headers.get('retry-after'), null);
    });

    it('answers 503 with deny, too, and goes on with the last answer where that is asked for', async () => {
      await using deny = await site({ decide: { onUnavailable: 'deny' } });
      deny.state.reply = AWAY;
      const denied = await deny.ask('/documents/7');
      assert.equal(denied.status, 503);
      assert.match(denied.headers.get('x-decision-id') ?? '', /./);
      await using last = await site({ decide: { onUnavailable: 'last' } });
      await last.ask('/documents/7');
      last.state.reply = AWAY;
      assert.equal((await last.ask('/documents/7')).status, 200);
      assert.equal((await last.ask('/documents/8')).status, 503);
    });

    it('asks another decision where a route has one, and none where it is open', async () => {
      await using at = await site();
      await at.ask('/documents', { method: 'POST' });
      assert.deepEqual(
        at.state.asked.map(({ path }) => path),
        ['app/write/allow'],
      );
      at.state.reply = 'false';
      assert.deepEqual((await at.ask('/open')).json, { ran: 'open' });
      assert.equal((await at.ask('/early/1')).status, 403, 'also a route that was declared before');
      assert.equal(at.state.asked.length, 2);
    });

    it('decides about unknown addresses, too', async () => {
      await using at = await site();
      at.state.reply = 'false';
      assert.equal((await at.ask('/no//such/%zz')).status, name === 'fastify' ? 400 : 403);
      assert.equal((await at.ask('/no/such')).status, 403);
      assert.equal(routeOf(at.state.asked.at(-1)), null);
    });

    it('answers 403 to an address that has several readings, and says which, before the policy is asked', async () => {
      await using at = await site();
      const { status, json, headers } = await at.ask('/documents/7%5C..');
      const message = 'The address of this request can be read in more than one way: it has a segment that is . or ...';
      assert.deepEqual([status, json], [403, { error: 'ambiguous_address', message }]);
      assert.deepEqual([headers.get('cache-control'), headers.get('x-decision-id')], ['no-store', null]);
      assert.deepEqual(at.state.asked, []);
      await using own = await site({ respond: true });
      assert.deepEqual((await own.ask('/documents/7%5C..')).json, { instead: 403 });
    });

    it('takes input, verdict and response of the application', async () => {
      await using at = await site({ input: 'own', isAllowed: ({ result }) => result === 'fine', respond: true });
      at.state.reply = '"fine"';
      assert.equal((await at.ask('/documents/7')).status, 200);
      assert.deepEqual(at.state.asked[0]?.input, { only: '/documents/:id' });
      at.state.reply = 'true';
      const { status, json } = await at.ask('/documents/7');
      assert.deepEqual([status, json], [418, { instead: 403 }]);
    });

    for (const [what, verdict, status] of [
      ['nothing', () => undefined as never, 403],
      ['a text', () => 'yes' as never, 403],
      ['a promise of false', async () => false, 403],
      ['a promise of true', async () => true, 200],
      ['a promise that fails', () => Promise.reject(new Error('a bug of the application')), 500],
    ] as const) {
      it(`lets nothing pass but true: a verdict of the application that is ${what}`, async () => {
        await using at = await site({ isAllowed: verdict });
        assert.equal((await at.ask('/documents/7')).status, status);
      });
    }

    for (const input of ['throws', 'loops'] as const) {
      it(`an error of the application (its input ${input}) is 500, and the handler does not run`, async () => {
        await using at = await site({ input });
        const { status, json } = await at.ask('/documents/7');
        assert.equal(status, 500);
        assert(!JSON.stringify(json).includes('ran'));
        assert.deepEqual(at.state.asked, []);
      });
    }
  });
}

describe('the guard for fastify', () => {
  it('guards only routes that name a decision where the plugin has none', async () => {
    const { state, client } = world();
    const app = fastify();
    await app.register(fastifyGuard, { client });
    app.get('/open', async () => ({}));
    app.get('/closed', { config: { policy: 'app/x' } }, async () => ({}));
    app.get('/wrong', { config: { policy: true as unknown as string } }, async () => ({}));
    state.reply = 'false';
    const status = async (url: string): Promise<number> => (await app.inject({ url })).statusCode;
    assert.deepEqual(await Promise.all(['/open', '/closed', '/wrong'].map(status)), [200, 403, 500]);
    await app.close();
  });

  it('guards what is below the instance that registers it, and nothing beside', async () => {
    const { state, client } = world();
    const app = fastify();
    await app.register(async (part) => {
      await part.register(fastifyGuard, { client, path: 'app/x' });
      await part.register(async (deeper) => void deeper.get('/in/deeper', async () => ({})), { prefix: '/v1' });
    });
    app.get('/beside', async () => ({}));
    state.reply = 'false';
    assert.equal((await app.inject({ url: '/v1/in/deeper' })).statusCode, 403);
    assert.equal(routeOf(state.asked[0]), '/v1/in/deeper');
    assert.equal((await app.inject({ url: '/beside' })).statusCode, 200);
    await app.close();
  });
});
