import type { FastifyInstance } from 'fastify';
import { createProgram, type Parts, type Program } from '../lib/lifecycle.js';
import type { Logger } from '../lib/log.js';
import type { RouteDeclaration } from './route.js';

/** An API that listens. */
export interface Listening {
  readonly app: FastifyInstance;
  readonly address: { url: string; port: number };
}

/** Makes a program whose parts have an HTTP API; see {@link createProgram}. Its `routes` are empty before the start. */
export function createHttpProgram(
  name: string,
  compose: (parts: Parts) => Promise<Listening>,
  log: Logger,
): Program<Listening['address']> & { readonly routes: readonly RouteDeclaration[] } {
  let routes: readonly RouteDeclaration[] = [];
  const start = async (parts: Parts): Promise<Listening['address']> => {
    const { app, address } = await compose(parts);
    routes = app.declaredRoutes;
    return address;
  };
  return {
    ...createProgram(name, start, log),
    get routes() {
      return routes;
    },
  };
}
