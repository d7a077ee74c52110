import { open } from 'node:fs/promises';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { Agent, request } from 'undici';
import { type WebSocket, WebSocketServer } from 'ws';

/**
 * The raw limit: what any system has to do for a data update, and nothing else. It takes `POST /data/config` and, as told by
 * its arguments, flushes the body to a file (`--append=<file>`), hands it to everybody on `/ws`, and copies the documents of the
 * entries into an OPA (`--opa=<url>`). No checks, no order, no retries.
 */
const args = new Map(
  process.argv.slice(2).map((arg) => [arg.slice(2, arg.indexOf('=')), arg.slice(arg.indexOf('=') + 1)]),
);
const file = args.get('append');
const opa = args.get('opa');

const log = file === undefined ? undefined : await open(file, 'a');
const dispatcher = new Agent({ bodyTimeout: 0, headersTimeout: 0 });
const subscribers = new Set<WebSocket>();
const sockets = new WebSocketServer({ noServer: true, clientTracking: false, perMessageDeflate: false });

async function copy({ url, dst_path: path }: { url: string; dst_path: string }): Promise<void> {
  const { body, headers } = await request(url, { dispatcher });
  const put = await request(`${opa}/v1/data${path}`, {
    dispatcher,
    method: 'PUT',
    headers: { 'content-length': String(headers['content-length']) },
    body,
  });
  await put.body.dump();
}

function notify(data: string): void {
  const id = '0123456789abcdef0123456789abcdef';
  const subscription = `{"id":"${id}","subscriber_id":"${id}","topic":"policy_data","notifier_id":null}`;
  const frame = Buffer.from(
    `{"request":{"method":"notify","arguments":{"subscription":${subscription},"data":${data}},"call_id":"${id}"},"response":null}`,
  );
  for (const subscriber of subscribers) subscriber.send(frame, { binary: false });
}

const server = createServer(async (request, response) => {
  if (request.method !== 'POST') return response.end('{"status":"ok"}');
  const body = await text(request);
  if (log !== undefined) {
    await log.write(body);
    await log.datasync();
  }
  notify(body);
  response.setHeader('content-type', 'application/json');
  response.end('{"status":"ok"}');
  if (opa !== undefined) await Promise.all((JSON.parse(body) as { entries: [] }).entries.map(copy));
});
server.on('upgrade', (request, socket, head) => {
  sockets.handleUpgrade(request, socket, head, (ws) => {
    ws.once('message', () => {
      subscribers.add(ws);
      ws.send('{"request": null, "response": {"result": true, "result_type": "bool", "call_id": "subscribe"}}');
    });
    ws.on('close', () => subscribers.delete(ws));
  });
});
server.listen(Number(args.get('port')), '127.0.0.1');
