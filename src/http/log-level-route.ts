import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { SyncError } from '../lib/errors.js';
import { type Logger, logLevelsOf } from '../lib/observe/log.js';
import { LOG_LEVELS, type LogLevels, type LogLevelsView } from '../lib/observe/log-levels.js';
import { didYouMean } from '../lib/settings/similar-name.js';
import { invalidRequest } from './json-body.js';
import { addRoute } from './route.js';

/** Longest time of a change that ends by itself: a day. */
const MAX_SECONDS = 86_400;

const level = z.enum(LOG_LEVELS);

const levelsView = z.object({
  level: level.describe('Of all components that have none of their own'),
  components: z.record(z.string(), level).describe('The level in effect of each component'),
  temporary: z
    .array(z.object({ component: z.string().nullable(), level, until: z.iso.datetime() }))
    .describe('Changes that end by themselves; component null: the level of all'),
});

/** A caller may make the log say more, or less, but not nothing. */
const asked = z.strictObject({
  level: z
    .enum(['debug', 'info', 'warn', 'error', 'default'])
    .describe('default: as at the start; without a component, of all components'),
  component: z.string().optional().describe('Default: all that have no level of their own'),
  for_seconds: z.number().min(1).max(MAX_SECONDS).optional().describe('Then the level is what it was before'),
});

/**
 * `GET` and `POST /log-level` of both programs: the levels of the log, by component. A program that
 * runs this one with a logger of its own has levels of its own, too: 501.
 */
export function logLevelRoutes(app: FastifyInstance, { log }: { log: Logger }): void {
  const declared = { path: '/log-level', access: ['listener', 'datasource'], limited: 'nothing', tag: 'Log' } as const;
  const notOurs = { description: 'The program that runs this one writes the log' };

  function ownLevels(): LogLevels {
    const levels = logLevelsOf(log);
    if (levels !== undefined) return levels;
    throw new SyncError('not_enabled', 'the log is written by the program that runs this one: set its level there');
  }

  addRoute(
    app,
    {
      ...declared,
      method: 'GET',
      summary: 'The levels of the log',
      responses: { 200: { description: 'The levels now', schema: levelsView }, 501: notOurs },
    },
    () => ownLevels().view() satisfies LogLevelsView,
  );
  addRoute(
    app,
    {
      ...declared,
      method: 'POST',
      summary: 'Change the level of the log, of all components or of one',
      description: 'Until the program ends, or for some time.',
      body: asked,
      responses: { 200: { description: 'The levels from now on', schema: levelsView }, 501: notOurs },
    },
    ({ body, caller }) => {
      const levels = ownLevels();
      const { component, for_seconds: seconds } = body;
      if (component !== undefined) checkComponent(component, levels.components);
      if (body.level === 'default' && seconds !== undefined)
        throw invalid('for_seconds', 'has no meaning with default');
      levels.change({ level: body.level, component, ...(seconds !== undefined && { forMs: seconds * 1000 }) });
      const change = { to: body.level, of: component ?? null, for_seconds: seconds ?? null };
      log.warn({ ...change, caller: caller.subject }, 'the level of the log is changed');
      return levels.view();
    },
  );
}

function checkComponent(name: string, known: readonly string[]): void {
  if (known.includes(name)) return;
  const hint = didYouMean(name, known);
  throw invalid(
    'component',
    `there is no component ${JSON.stringify(name.slice(0, 100))}${hint} (${known.join(', ')})`,
  );
}

function invalid(field: string, msg: string): SyncError {
  return invalidRequest([{ loc: ['body', field], msg, type: 'value_error' }]);
}
