import { LOG_LEVELS, OPAL_LOG_LEVELS } from '../lib/log.js';
import { choiceSetting, listSetting } from '../lib/options.js';
import { METRICS_ACCESS } from './metrics-route.js';

/** Settings of both programs; each lists them under a heading of its own. */
export const SHARED_SETTINGS = {
  allowedHosts: listSetting(
    'SYNC_ALLOWED_HOSTS',
    'Names (.example.com for all below it) under which it may be asked, beside loopback names. Empty: any, and on a loopback address loopback names alone.',
    { opal: null },
  ),
  metricsAccess: choiceSetting(
    'SYNC_METRICS_ACCESS',
    'Who may read /metrics: everyone; token: whoever has a valid one, if tokens are asked for; off: nobody.',
    { opal: null, choices: METRICS_ACCESS, default: 'token' },
  ),
  logLevel: choiceSetting('SYNC_LOG_LEVEL', 'Least severe level that is logged.', {
    choices: LOG_LEVELS,
    default: 'info',
    ignoreCase: true,
    also: OPAL_LOG_LEVELS,
  }),
  logFormat: choiceSetting('SYNC_LOG_FORMAT', 'auto: pretty on a terminal, otherwise one JSON object a line.', {
    opal: null,
    choices: ['auto', 'json', 'pretty'],
    default: 'auto',
  }),
};
