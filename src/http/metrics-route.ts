import type { FastifyInstance } from 'fastify';
import type { Metrics } from '../lib/observe/metrics.js';
import { addRoute } from './route.js';

/**
 * SYNC_METRICS_ACCESS: who may read `/metrics` while authentication is on; `off`: there is no such
 * route.
 */
export const METRICS_ACCESS = ['everyone', 'token', 'off'] as const;
export type MetricsAccess = (typeof METRICS_ACCESS)[number];

/**
 * `GET /metrics` in the text format of Prometheus; both programs have it
 * (docs/reference/metrics.md).
 */
export function metricsRoute(app: FastifyInstance, access: MetricsAccess, metrics: Metrics): void {
  if (access === 'off') return;
  addRoute(
    app,
    {
      method: 'GET',
      path: '/metrics',
      // They count everybody's updates.
      ...(access === 'everyone' ? { access, strangers: 'all' } : { access, limited: 'nothing' }),
      tag: 'Statistics',
      summary: 'Figures for Prometheus',
      responses: { 200: { description: 'In the text format of Prometheus', contentType: 'text/plain' } },
    },
    async ({ reply }) => {
      const { contentType, text } = await metrics.text();
      return reply.type(contentType).send(text);
    },
  );
}
