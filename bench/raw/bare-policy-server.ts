import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { promisify } from 'node:util';

/**
 * The raw limit of a policy change. `GET` answers an OPA with the bundle in `--bundle=<file>`, by long poll; `POST` has it
 * offered anew, after `--fetch=<git directory>` was brought up to date from its origin, where there is one.
 */
const args = new Map(
  process.argv.slice(2).map((arg) => [arg.slice(2, arg.indexOf('=')), arg.slice(arg.indexOf('=') + 1)]),
);
const file = args.get('bundle') ?? '';
const gitDir = args.get('fetch');
const git = promisify(execFile);

let offered = { tag: '"1"', bundle: readFileSync(file) };
let waiting: ServerResponse[] = [];

function answer(response: ServerResponse): void {
  response.writeHead(200, {
    'content-type': 'application/vnd.openpolicyagent.bundles',
    'content-length': offered.bundle.length,
    etag: offered.tag,
  });
  response.end(offered.bundle);
}

const server = createServer(async (request, response) => {
  if (request.method === 'POST') {
    if (gitDir !== undefined) {
      const branch = '+refs/heads/master:refs/heads/master';
      await git('git', ['--git-dir', gitDir, 'fetch', '--quiet', '--no-tags', 'origin', branch]);
    }
    offered = { tag: `"${Number(offered.tag.slice(1, -1)) + 1}"`, bundle: readFileSync(file) };
    for (const one of waiting) answer(one);
    waiting = [];
    response.end();
  } else if (request.headers['if-none-match'] === offered.tag) waiting.push(response);
  else answer(response);
});
server.keepAliveTimeout = 0; // none
server.listen(Number(args.get('port')), '127.0.0.1');
