import type { FastifyInstance } from 'fastify';
import { ANONYMOUS } from '../auth/anonymous-auth.js';
import { authorize } from '../auth/authorize.js';
import type { Authenticator } from '../auth/caller.js';

/**
 * Deny by default (design D36): a route without an access rule cannot be added, and no handler runs before its
 * caller is authorized, which happens before the body is read.
 */
export function useAuthHook(app: FastifyInstance, authenticator: Authenticator): void {
  app.decorateRequest('caller', undefined);
  app.addHook('onRoute', ({ url, config }) => {
    if (config?.access === undefined) throw new Error(`the route ${url} does not say who may call it`);
  });
  app.addHook('onRequest', async (request) => {
    const { access } = request.routeOptions.config;
    if (access === undefined) return; // no such route: the error handler responds
    if (access === 'everyone') {
      // An invalid token does not matter here.
      request.caller = ANONYMOUS;
      return;
    }
    request.caller = await authenticator.authenticate(request.headers.authorization);
    if (authenticator.enabled) authorize(access, request.caller);
  });
}
