/** Entries that no data update may have. */
export const BAD_ENTRIES: readonly unknown[] = [
  null,
  7,
  [],
  {},
  { url: 7, topics: ['policy_data'], dst_path: '/users' },
  { url: 'http://x', topics: 'policy_data', dst_path: '/users' },
  { url: 'http://x', topics: [], dst_path: '/users' },
  { url: 'http://x', topics: [7], dst_path: '/users' },
  { url: 'http://x', topics: ['policy_data'], dst_path: 7 },
  { url: 'http://x', topics: ['policy_data'], dst_path: '/../users' },
  { url: 'http://x', topics: ['policy_data'], dst_path: '/users%2' },
  { url: 'http://x', topics: ['policy_data'], dst_path: '/a'.repeat(1000) },
  { url: 'not a URL', topics: ['policy_data'], dst_path: '/users' },
  { url: '', topics: ['policy_data'], dst_path: '/', data: [1] },
  { url: '', topics: ['policy_data'], dst_path: '/users', save_method: 'POST', data: {} },
  { url: '', topics: ['policy_data'], dst_path: '/users', save_method: 'DELETE', data: {} },
  { url: '', topics: ['policy_data'], dst_path: '/users', save_method: 'PATCH', data: { op: 'add' } },
  {
    url: '',
    topics: ['policy_data'],
    dst_path: '/users',
    save_method: 'PATCH',
    data: [{ op: 'add', path: '/-', value: 1 }],
  },
  { url: 'http://x', topics: ['policy_data'], dst_path: '/users', config: { headers: { a: 1 } } },
  { url: 'http://x', topics: ['policy_data'], dst_path: '/users', config: nested(100) },
  { url: 'http://x', topics: ['policy_data'], dst_path: '/users', periodic_update_interval: -1 },
  JSON.parse('{"__proto__":{"url":"http://x","topics":["policy_data"],"dst_path":"/users"}}'),
];

/** An entry that would change what engines hold. */
const GOOD = { url: '', topics: ['policy_data'], dst_path: '/users', data: {} };

/** Calls over a socket, with the result that refuses them. */
export const BAD_CALLS: readonly (readonly [method: string, args: object, result: unknown])[] = [
  ['publish', {}, false],
  ['publish', { topics: 'policy_data' }, false],
  ['publish', { topics: ['policy_data'], data: 'text' }, false],
  ['publish', { topics: ['policy_data'], data: { entries: [] } }, false],
  ['publish', { topics: ['other'], data: { entries: [GOOD] } }, false],
  ['publish', { topics: ['policy_data', 7], data: { entries: [GOOD] } }, false],
  ['publish', { topics: { length: 1 }, data: { entries: [GOOD] } }, false],
  ['publish', { topics: Array.from({ length: 2000 }, () => 'policy_data'), data: { entries: [GOOD] } }, false],
  ['publish', { topics: ['default:policy:.'], data: 'f'.repeat(40) }, false],
  ['publish', { topics: ['policy:.', 'webhook', '__broadcast_session_keepalive__'], data: {} }, false],
  ['subscribe', {}, false],
  ['subscribe', { topics: 7 }, false],
  ['subscribe', { topics: [null] }, false],
  ['subscribe', { topics: Array.from({ length: 100_000 }, (_, index) => `topic-${index}`) }, false],
  ['unsubscribe', { topics: {} }, false],
  ['__proto__', {}, null],
  ['constructor', {}, null],
  ['notify', { subscription: { topic: 'policy_data' }, data: { entries: [GOOD] } }, null],
  ['x'.repeat(100_000), {}, null],
];

/** Messages that are JSON, and no call. */
export const BAD_MESSAGES: readonly string[] = [
  ...['null', '7', '"x"', '[]', '{}', '[[]]', '{"request":7}', '{"request":{}}', '{"request":{"method":7}}'],
  '{"request":{"method":"subscribe","arguments":[1],"call_id":"x"}}',
  '{"request":{"method":"subscribe","arguments":null,"call_id":{}}}',
  '{"request":{"method":"publish","arguments":{"topics":["policy_data"],"data":{"entries":[{}]}},"call_id":7}}',
  '{"response":{"result":{},"call_id":"nobody-asked"},"request":null}',
  '{"request":null,"response":"x"}',
  '{"__proto__":{"request":{"method":"publish"}}}',
  `{"request":{"method":"_ping_","arguments":{"x":${'['.repeat(50_000)}${']'.repeat(50_000)}},"call_id":"deep"}}`,
];

function nested(levels: number): object {
  return levels === 0 ? {} : { x: nested(levels - 1) };
}
