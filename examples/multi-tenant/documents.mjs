// Serves the documents of this example: GET /<tenant>.json. Yours come from the API of your application.
//
//   node examples/multi-tenant/documents.mjs
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';

const { HOST: host = '127.0.0.1', PORT: port = '7020' } = process.env;

const server = createServer(async (request, response) => {
  const name = /^\/(\w+\.json)$/.exec(request.url ?? '')?.[1];
  try {
    if (name === undefined) throw new Error('not a document');
    const text = await readFile(new URL(`acl/${name}`, import.meta.url));
    response.writeHead(200, { 'content-type': 'application/json' }).end(text);
  } catch {
    // Whatever the reason, there is no such document here.
    response.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"not found"}');
  }
});
server.listen(Number(port), host, () => {
  process.stdout.write(`documents at http://${host}:${server.address().port}/\n`);
});
