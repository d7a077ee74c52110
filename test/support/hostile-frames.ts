import { type Headers, requestBytes, upgradeBytes, wsFrame } from './hostile-wire.js';

/** Upgrade requests that are refused, with the statuses that fit. `good` is a valid token, `bad` has headers without one. */
export function badUpgrades(
  good: string,
  bad: Readonly<Record<string, Headers>>,
): Readonly<Record<string, readonly [bytes: Buffer, statuses: readonly number[]]>> {
  const token = ['Authorization', `Bearer ${good}`] as const;
  return {
    'another path': [upgradeBytes([token], '/'), [404]],
    'a target that is no URL': [upgradeBytes([token], '//'), [404]],
    'a broken host in the target': [upgradeBytes([token], 'http://[/ws'), [400, 404]],
    'a climbing path': [upgradeBytes([token], '/ws/../../x'), [404]],
    'a long path': [upgradeBytes([token], `/ws${'/x'.repeat(3000)}`), [404]],
    POST: [upgradeBytes([token], '/ws', 'POST'), [400, 405]],
    'another protocol': [upgradeBytes([token, ['Upgrade', 'h2c']]), [400]],
    'an old version': [upgradeBytes([token, ['Sec-WebSocket-Version', '1']]), [400, 426]],
    'a key that is none': [upgradeBytes([token, ['Sec-WebSocket-Key', 'x']]), [400]],
    'a list of subprotocols that is none': [upgradeBytes([token, ['Sec-WebSocket-Protocol', ',,;=']]), [400]],
    'no upgrade at all': [requestBytes({ method: 'GET', target: '/ws', headers: [token] }), [404]],
    'the token in the query': [upgradeBytes([], `/ws?token=${good}`), [401]],
    ...Object.fromEntries(
      Object.entries(bad).map(([name, headers]) => [name, [upgradeBytes(headers), [401, 429, 431]]]),
    ),
  };
}

const PING = Buffer.from('{"request":{"method":"_ping_","arguments":{},"call_id":"1"},"response":null}');

/** What a peer sends over an open socket that breaks the framing or is no call. */
export const BROKEN_FRAMES: Readonly<Record<string, Buffer>> = {
  'a frame without a mask': wsFrame(1, PING, { masked: false }),
  'reserved bits': wsFrame(1, PING, { rsv: 7 }),
  'an unknown kind': wsFrame(3, PING),
  'an unknown control frame': wsFrame(11, PING),
  'a ping of 200 bytes': wsFrame(9, Buffer.alloc(200)),
  'a ping in parts': wsFrame(9, PING, { fin: false }),
  'a continuation of nothing': wsFrame(0, PING),
  'a new message within a message': Buffer.concat([wsFrame(1, PING, { fin: false }), wsFrame(1, PING)]),
  'text that is not UTF-8': wsFrame(1, Buffer.from([0x22, 0xff, 0x22])),
  'a close with a code that is none': wsFrame(8, Buffer.from([0, 1])),
  'a close of one byte': wsFrame(8, Buffer.from([3])),
  'a length beyond the limit': wsFrame(1, PING, { length: 17n * 1024n * 1024n }),
  'a length of 2^63': wsFrame(1, PING, { length: 1n << 63n }),
  'a length of 2^53': wsFrame(2, PING, { length: 1n << 53n }),
  'a binary message': wsFrame(2, Buffer.from(PING)),
  'half a frame': wsFrame(1, PING).subarray(0, 20),
  'half a header': Buffer.from([0x81]),
  'an HTTP request': Buffer.from('GET /data/config HTTP/1.1\r\nHost: x\r\n\r\n'),
  '20,000 parts of one byte': Buffer.concat([
    wsFrame(1, Buffer.from('"'), { fin: false }),
    ...Array.from({ length: 20_000 }, () => wsFrame(0, Buffer.from('x'), { fin: false })),
  ]),
  '20,000 empty parts': Buffer.concat([
    wsFrame(1, Buffer.alloc(0), { fin: false }),
    ...Array.from({ length: 20_000 }, () => wsFrame(0, Buffer.alloc(0), { fin: false })),
  ]),
  '5,000 pings': Buffer.concat(Array.from({ length: 5000 }, () => wsFrame(9, Buffer.from('ping')))),
  'text that is no JSON': wsFrame(1, Buffer.from('{"request":')),
  'an empty text': wsFrame(1, Buffer.alloc(0)),
  '200,000 open brackets': wsFrame(1, Buffer.from('['.repeat(200_000))),
};
