// Makes docs/images/fleet.svg: what "policysync status" prints while a small fleet converges on a commit. Everything in it is real: a
// server and five clients with embedded engines, two of them frozen while the commit arrives.
//
//   node scripts/build.mjs && node scripts/fleet-picture.mjs
import { execFile, spawn } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Fatal, main } from './lib/run.mjs';
import { framesAsSvg } from './lib/terminal-svg.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const PROGRAM = join(ROOT, 'dist', 'cli', 'policysync.js');
const CLIENTS = ['billing-1', 'billing-2', 'checkout-1', 'checkout-2', 'search-1'];
const FROZEN = CLIENTS.slice(0, 2);
const PATIENCE_MS = 60_000;

const exec = promisify(execFile);

await main(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'policysync-picture-'));
  const children = new Map();
  try {
    const repo = join(folder, 'policies');
    cpSync(join(ROOT, 'examples', 'policies'), repo, { recursive: true });
    const git = (...args) =>
      exec('git', ['-c', 'user.name=demo', '-c', 'user.email=demo@localhost', ...args], { cwd: repo });
    await git('init', '--quiet', '--initial-branch=main');
    await git('add', '.');
    await git('commit', '--quiet', '--message=First policy');
    const { url } = await server(children, { folder, repo });
    for (const [index, id] of CLIENTS.entries()) client(children, { id, url, port: 17100 + index });
    const status = async () =>
      (await exec(process.execPath, [PROGRAM, 'status', '--server-url', url])).stdout.trimEnd();

    const frames = [];
    const show = (text, title, seconds) => frames.push({ title, text, seconds });
    await publish(url, '/users', { alice: { role: 'viewer' } });
    show(await until(status, isCurrent), 'everyone holds the first commit', 3);
    for (const id of FROZEN) children.get(id).kill('SIGSTOP');
    writeFileSync(join(repo, 'app', 'editors.rego'), 'package app.editors\n\nallow if input.role == "editor"\n');
    await git('add', '.');
    await git('commit', '--quiet', '--message=Editors');
    const head = (await git('rev-parse', 'HEAD')).stdout.slice(0, 10);
    const holders = (text) =>
      text
        .split('\n')
        .slice(3)
        .filter((line) => line.includes(head)).length;
    show(
      await until(status, (text) => holders(text) >= CLIENTS.length - FROZEN.length && !isCurrent(text)),
      'a commit: three of five hold it, two hosts do not respond',
      4,
    );
    for (const id of FROZEN) children.get(id).kill('SIGCONT');
    show(
      await until(status, (text) => isCurrent(text) && holders(text) === CLIENTS.length),
      'they are back: everyone holds it',
      4,
    );
    writeFileSync(join(ROOT, 'docs', 'images', 'fleet.svg'), framesAsSvg('policysync status', frames));
    console.log(frames.map(({ title, text }) => `# ${title}\n${text}`).join('\n\n'));
  } finally {
    for (const child of children.values()) child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
});

/** Nobody is behind. */
function isCurrent(text) {
  const rows = text.split('\n').slice(3);
  return rows.length === CLIENTS.length && rows.every((row) => row.trimEnd().endsWith(' -') && row.includes('healthy'));
}

async function server(children, { folder, repo }) {
  const url = 'http://127.0.0.1:17002';
  start(children, 'server', ['server'], {
    SYNC_POLICY_REPO_URL: repo,
    SYNC_POLICY_REPO_MAIN_BRANCH: 'main',
    SYNC_POLICY_REPO_POLLING_INTERVAL: '1',
    SYNC_STATE_DIR: join(folder, 'state'),
    SYNC_SERVER_BIND_PORT: '17002',
    SYNC_HEARTBEAT_INTERVAL: '2',
  });
  await until(
    () => fetch(`${url}/healthcheck`).then(({ ok }) => ok),
    (ok) => ok === true,
  );
  return { url };
}

function client(children, { id, url, port }) {
  start(children, id, ['client'], {
    SYNC_CLIENT_ID: id,
    SYNC_SERVER_URL: url,
    SYNC_CLIENT_API_SERVER_PORT: String(port),
    SYNC_ENGINE: 'embedded',
    SYNC_POLICY_STORE_URL: `http://127.0.0.1:${port + 100}`,
  });
}

function start(children, name, args, settings) {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, SYNC_LOG_LEVEL: 'error', ...settings };
  children.set(name, spawn(process.execPath, [PROGRAM, ...args], { env, stdio: ['ignore', 'ignore', 'inherit'] }));
}

async function publish(url, path, document) {
  const args = ['publish', '--server-url', url, '--dst-path', path, '--data', JSON.stringify(document)];
  await exec(process.execPath, [PROGRAM, ...args]);
}

/** What `ask` gives as soon as `isGood` says so. */
async function until(ask, isGood) {
  const end = Date.now() + PATIENCE_MS;
  let last;
  while (Date.now() < end) {
    last = await ask().catch((error) => error.message);
    if (isGood(last)) return last;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Fatal(`The fleet is not as it should be after ${PATIENCE_MS / 1000} s; the last answer was:\n${last}`);
}
