import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

/** The raw limit of a bundle that is there: answers the bytes of a file, and 304 to whoever has a tag. `--port=<n> --file=<path>` */
const [port = '', file = ''] = process.argv.slice(2).map((arg) => arg.slice(arg.indexOf('=') + 1));
const bytes = readFileSync(file);

createServer((request, response) => {
  if (request.headers['if-none-match'] !== undefined) {
    response.writeHead(304, { etag: '"file"' }).end();
    return;
  }
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': bytes.length, etag: '"file"' });
  response.end(bytes);
}).listen(Number(port), '127.0.0.1');
