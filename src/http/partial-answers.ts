import type { FastifyInstance, FastifyRequest } from 'fastify';
import { insiderCut } from '../wire/insider.js';
import type { ResponseDeclaration } from './declared-route.js';

type Cut = (answer: unknown) => unknown;

/**
 * Leaves out of answers what their callers may not know: members that are for insiders, as the declared response says. This is the only
 * place that does so; it sees the objects that handlers return or send, and no texts or bytes.
 */
export function usePartialAnswers(app: FastifyInstance): void {
  const cuts = new WeakMap<ResponseDeclaration, Promise<Cut>>();
  app.addHook('preSerialization', (request, reply, answer, done) => {
    const declared = request.routeOptions.config.responses?.[reply.statusCode];
    // What is not declared is an error, and `sendError` knows what it may say.
    if (request.isInsider || declared === undefined) {
      // The same address has less for others: nothing in between may keep this for them.
      if (isOpen(request)) reply.header('cache-control', 'no-store');
      done(null, answer);
      return;
    }
    const cut = cuts.get(declared) ?? cutOf(declared);
    cuts.set(declared, cut);
    cut.then((known) => done(null, known(answer)), done);
  });
}

function isOpen({ routeOptions: { config } }: FastifyRequest): boolean {
  return config.audience?.access === 'everyone' && config.audience.strangers === 'words';
}

async function cutOf({ schema }: ResponseDeclaration): Promise<Cut> {
  const loaded = typeof schema === 'function' ? await schema() : schema;
  return (loaded && insiderCut(loaded)) ?? ((answer) => answer);
}
