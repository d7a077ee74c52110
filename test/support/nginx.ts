import { readFile, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { Pair } from './certificates.js';
import { freePort } from './opa.js';
import { repoRoot } from './repo.js';
import { serverProcess } from './server-process.js';
import type { ServerProgram } from './server-programs.js';
import { tempDir } from './temp-dir.js';

/** A real nginx in front of servers. `await using` ends it. */
export interface Nginx extends AsyncDisposable {
  /** `https://localhost:<port>`. */
  readonly url: string;
}

/** Starts nginx with the configuration that ships; only addresses and files are those of the test. */
export async function startNginx(
  program: Extract<ServerProgram, { path: string }>,
  { servers, pair }: { servers: readonly [string, string]; pair: Pair },
): Promise<Nginx> {
  const dir = await tempDir();
  const port = await freePort();
  const shipped = await readFile(join(repoRoot(), 'deploy', 'nginx', 'policysync.conf'), 'utf8');
  const [a, b] = servers.map((url) => new URL(url).host);
  const site = replaceEach(shipped, [
    ['server server-a:7002', `server ${a}`],
    ['server server-b:7002', `server ${b}`],
    ['listen 7443 ssl', `listen 127.0.0.1:${port} ssl`],
    ['/etc/nginx/certs/tls.crt', pair.cert],
    ['/etc/nginx/certs/tls.key', pair.key],
  ]);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((one) => `${one}_temp_path ${one};`);
  const config = [
    ...(process.getuid?.() === 0 ? ['user root;'] : []),
    'daemon off; worker_processes 1; pid nginx.pid; error_log stderr warn;',
    'events { worker_connections 1024; }',
    `http { access_log off; ${temporary.join(' ')}\n${site}\n}`,
  ];
  const file = join(dir.path, 'nginx.conf');
  await writeFile(file, config.join('\n'));
  const nginx = serverProcess({
    path: program.path,
    args: ['-p', dir.path, '-c', file, '-e', 'stderr'],
    cwd: dir.path,
    env: program.env,
    ready: () => canConnect(port),
  });
  const end = async (): Promise<void> => {
    await nginx.kill();
    await dir[Symbol.asyncDispose]();
  };
  try {
    await nginx.start();
  } catch (error) {
    await end();
    throw error;
  }
  return { url: `https://localhost:${port}`, [Symbol.asyncDispose]: end };
}

/** Fails where a text is not there: the test would run another configuration than the one that ships. */
function replaceEach(text: string, pairs: readonly (readonly [string, string])[]): string {
  return pairs.reduce((now, [from, to]) => {
    if (!now.includes(from)) throw new Error(`the nginx configuration has no ${from}`);
    return now.replaceAll(from, to);
  }, text);
}

function canConnect(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve();
    });
    socket.once('error', reject);
  });
}
