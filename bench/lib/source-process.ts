import { createServer } from 'node:http';
import { usersText } from './users.js';

/** The process of `source.ts`: `GET /?n=7&bytes=1000` answers `{"n":7,"users":[...]}`, `GET /asked` how often that was asked. */
const texts = new Map<number, Buffer>();
let asked = 0;

createServer((request, response) => {
  if (request.url === '/asked') {
    response.end(String(asked));
    return;
  }
  asked++;
  const { searchParams } = new URL(request.url ?? '/', 'http://source');
  const bytes = Number(searchParams.get('bytes'));
  const users = texts.get(bytes) ?? Buffer.from(`,"users":${usersText(bytes)}}`);
  texts.set(bytes, users);
  const start = Buffer.from(`{"n":${Number(searchParams.get('n'))}`);
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': start.length + users.length });
  response.write(start);
  response.end(users);
}).listen(Number(process.argv[2]), '127.0.0.1');
