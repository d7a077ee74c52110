import { invalidRequest, parseBody } from '../http/json-body.js';
import { type DataUpdate, dataUpdate } from '../wire/data.js';
import { parseKeepingData } from '../wire/inline-data.js';
import { MAX_PROBLEMS } from '../wire/lists.js';
import { expandTopics } from '../wire/topics.js';
import { checkUpdate } from './update-rules.js';

/**
 * The data update of a `publish` call on a socket: whatever is published on a data topic is one, with the same rules as
 * `POST /data/config` (design D28). Each topic of the call must be one that the entries are published on, since a
 * subscriber of another topic could do nothing with it. Throws `request_invalid`.
 */
export function socketUpdate(topics: readonly string[], dataText: string): DataUpdate {
  const update = parseBody(dataUpdate, parseKeepingData(dataText));
  checkUpdate(update); // before anything is made of its topics
  const covered = new Set(expandTopics(update.entries.flatMap((entry) => entry.topics)));
  const others = topics.filter((topic) => !covered.has(topic));
  if (others.length === 0) return update;
  const named = others.slice(0, MAX_PROBLEMS).map((topic) => JSON.stringify(topic.slice(0, 200)));
  const msg = `no entry is published on ${named.join(', ')}${others.length > named.length ? ', ...' : ''}`;
  throw invalidRequest([{ loc: ['topics'], msg, type: 'value_error' }]);
}
