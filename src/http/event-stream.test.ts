import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { until } from '../../test/support/until.js';
import { silentLogger } from '../lib/log.js';
import { createHttpApp } from './app.js';
import { EventStream } from './event-stream.js';
import { addRoute } from './route.js';

test('streams that wait for their turn on a connection end with it', async () => {
  const app = createHttpApp({ bodyLimitBytes: 1024 }, { log: silentLogger() });
  let begun = 0;
  let open = 0;
  addRoute(
    app,
    { method: 'GET', path: '/stream', access: 'everyone', tag: 'Test', summary: 'A stream' },
    ({ reply }) => {
      const stream = new EventStream();
      begun++;
      open++;
      stream.onClosed = () => open--;
      return stream.open(reply, 1000);
    },
  );
  try {
    await app.listen({ port: 0, host: '127.0.0.1' });
    const address = app.server.address();
    assert(typeof address === 'object' && address !== null);
    const socket = connect(address.port, '127.0.0.1');
    socket.write('GET /stream HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(5));
    await until(() => begun === 5, { withinMs: 10_000, what: 'all have begun' });
    socket.destroy();
    await until(() => open === 0, { withinMs: 10_000, what: 'all have ended' });
  } finally {
    await app.close();
  }
});
