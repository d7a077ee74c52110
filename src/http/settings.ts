import { LOG_LEVELS, OPAL_LOG_LEVELS } from '../lib/log.js';
import { choiceSetting, listSetting } from '../lib/options.js';
import { METRICS_ACCESS } from './metrics-route.js';

/** Settings of both programs. `group`: the heading of those that are about the HTTP API. */
export function sharedSettings(group: string) {
  return {
    allowedHosts: listSetting({
      env: 'SYNC_ALLOWED_HOSTS',
      opal: null,
      group,
      separator: ',',
      default: [],
      description:
        'Names (.example.com for all below it) under which it may be asked, beside loopback names. Empty: any, and on a loopback address loopback names alone.',
    }),
    metricsAccess: choiceSetting({
      env: 'SYNC_METRICS_ACCESS',
      opal: null,
      group,
      choices: METRICS_ACCESS,
      default: 'token',
      description:
        'Who may read /metrics: everyone; token: whoever has a valid one, if tokens are asked for; off: nobody.',
    }),
    logLevel: choiceSetting({
      env: 'SYNC_LOG_LEVEL',
      group: 'General',
      choices: LOG_LEVELS,
      default: 'info',
      ignoreCase: true,
      also: OPAL_LOG_LEVELS,
      description: 'Least severe level that is logged.',
    }),
    logFormat: choiceSetting({
      env: 'SYNC_LOG_FORMAT',
      opal: null,
      group: 'General',
      choices: ['auto', 'json', 'pretty'],
      default: 'auto',
      description: 'auto: pretty on a terminal, otherwise one JSON object a line.',
    }),
  };
}
