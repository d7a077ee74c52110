import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { addRoute } from '../../http/route.js';
import { SyncError } from '../../lib/errors.js';
import {
  type CallbackConfig,
  type CallbackEntry,
  type CallbackRegistry,
  callbackConfig,
  callbackUrl,
  completeCallbackConfig,
  completeConfig,
} from '../report/callbacks.js';
import { maskedHeaders } from '../report/report.js';

/** What the callback routes need. */
export interface CallbackRoutesDeps {
  readonly registry: CallbackRegistry;
  /** The configuration of a callback that is registered without one. */
  readonly defaults: CallbackConfig;
}

/**
 * Body of `POST /callbacks`. The key is part of a path, so it has only characters that need no
 * escape there.
 */
const registration = z.object({
  url: callbackUrl,
  config: callbackConfig.nullish(),
  key: z
    .string()
    .regex(/^[A-Za-z0-9._~:@-]{1,100}$/, 'must be 1 to 100 letters, digits or . _ ~ : @ -')
    .nullish(),
});

const shownEntry = z.object({ key: z.string(), url: z.string(), config: completeCallbackConfig });

const notFound = { description: 'No callback has this key' };

/**
 * The registered callbacks, `/callbacks` (opal-protocol P2.6). Header values are never shown: they
 * are often secrets.
 */
export function callbackRoutes(app: FastifyInstance, { registry, defaults }: CallbackRoutesDeps): void {
  const declared = { access: ['listener'], limited: 'nothing', tag: 'Callbacks' } as const;

  addRoute(
    app,
    {
      ...declared,
      method: 'GET',
      path: '/callbacks',
      summary: 'The callbacks that receive every report',
      responses: { 200: { description: 'The callbacks', schema: z.array(shownEntry) } },
    },
    () => registry.all().map(shown),
  );

  addRoute(
    app,
    {
      ...declared,
      method: 'GET',
      path: '/callbacks/:key',
      summary: 'One callback',
      responses: { 200: { description: 'The callback', schema: shownEntry }, 404: notFound },
    },
    ({ request }) => {
      const entry = registry.get(keyOf(request.params));
      if (entry === undefined) throw noCallback();
      return shown(entry);
    },
  );

  addRoute(
    app,
    {
      ...declared,
      method: 'POST',
      path: '/callbacks',
      summary: 'Register a callback until the client ends',
      description:
        'Without a key it gets one, made of its URL and configuration. A callback with the same key is replaced.',
      body: registration,
      responses: {
        200: { description: 'The saved callback', schema: shownEntry },
        409: { description: 'There are too many callbacks' },
      },
    },
    ({ body: { url, config, key } }) => {
      const target = { url, config: config === null || config === undefined ? defaults : completeConfig(config) };
      return shown(registry.put(target, key ?? undefined));
    },
  );

  addRoute(
    app,
    {
      ...declared,
      method: 'DELETE',
      path: '/callbacks/:key',
      summary: 'Delete a callback',
      responses: { 204: { description: 'Deleted' }, 404: notFound },
    },
    ({ request, reply }) => {
      if (!registry.delete(keyOf(request.params))) throw noCallback();
      return reply.code(204).send();
    },
  );
}

function shown({ key, url, config }: CallbackEntry): z.infer<typeof shownEntry> {
  return { key, url, config: { ...config, headers: maskedHeaders(config.headers) } };
}

function keyOf(params: unknown): string {
  return z.object({ key: z.string() }).parse(params).key;
}

/** The text is OPAL's. */
function noCallback(): SyncError {
  return new SyncError('not_found', 'no callback found with this key');
}
