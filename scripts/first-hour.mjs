// The first hour with PolicySync, with a stopwatch for each step: what is committed here is cloned, and README.md followed, in an empty
// home with an empty npm cache. Prints parts A and B of docs/internals/first-hour.md; code 1 if a step fails or a goal is missed.
//
//   node scripts/first-hour.mjs [--opa <program>]       without --opa, no OPA program is on PATH
import { appendFileSync, cpSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { availableParallelism, loadavg } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { freePort, freshHome, until } from './lib/fresh-home.mjs';
import { Fatal, main } from './lib/run.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const PARTS = [
  { part: 'A', what: 'the demo', goalSeconds: 60 },
  { part: 'B', what: "a repository of one's own", goalSeconds: 300 },
];
const OWNERS = '\n# The owner of a document may do anything with it.\nallow if input.owner == input.user\n';

await main(async () => {
  const { values } = parseArgs({ options: { opa: { type: 'string' } } });
  const machine = await freshHome(values.opa === undefined ? undefined : resolve(values.opa));
  const load = loadavg()[0].toFixed(1);
  const stop = () => machine.end().then(() => process.exit(1));
  process.once('SIGINT', stop).once('SIGTERM', stop);
  try {
    await demo(machine);
    const demoBytes = await machine.cacheBytes();
    const packageBytes = await ownRepository(machine);
    const installBytes = (await machine.cacheBytes()) - packageBytes; // npm keeps the package there, too
    const opa = values.opa === undefined ? 'no OPA program on PATH' : 'OPA on PATH';
    console.log(`\nNode ${process.version}, ${availableParallelism()} cores, load ${load} at the start, ${opa}`);
    console.log(
      `npm downloaded ${megabytes(demoBytes)} for the checkout; beside the package (${megabytes(packageBytes)}), ${megabytes(installBytes)}\n`,
    );
    return print(machine.steps) ? 0 : 1;
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop);
    await machine.end();
  }
});

/** README's first command. */
async function demo({ step, home }) {
  const checkout = join(home, 'policysync');
  await step('A', '`git clone`', ['git', 'clone', '--quiet', ROOT, checkout], home);
  await step('A', '`npm ci`', ['npm', 'ci'], checkout);
  await step('A', '`npm run demo -- --once`', ['npm', 'run', 'demo', '--', '--once'], checkout);
}

/** From the checkout to decisions of a repository of one's own. Returns the size of the package in bytes. */
async function ownRepository({ step, timed, run, start, home, emptyCache }) {
  const checkout = join(home, 'policysync');
  const { version } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8'));
  await step('B', '`npm pack`', ['npm', 'pack', '--silent'], checkout);
  emptyCache(); // of the host that installs the package
  await step('B', '`npm install --global`', ['npm', 'install', '--global', `./policysync-${version}.tgz`], checkout);

  const repo = join(home, 'policies');
  cpSync(join(checkout, 'examples', 'policies'), repo, { recursive: true });
  const git = (...args) => run('git', ['-c', 'user.name=reader', '-c', 'user.email=reader@localhost', ...args], repo);
  await git('init', '-b', 'main');
  await git('add', '.');
  await git('commit', '-m', 'First policy');

  const own = join(home, 'sync');
  mkdirSync(own);
  const policysync = (...args) => step('B', `\`policysync ${args[0]}\``, ['policysync', ...args], own);
  const config = ['--config', 'policysync.yaml'];
  const [server, client, engine] = [await freePort(), await freePort(), await freePort()];
  const ports = ['--port', server, '--client-port', client, '--engine-port', engine].map(String);
  await policysync('check', repo);
  await policysync('init', '--yes', '--repository', repo, ...ports);
  await policysync('doctor', 'server', '--strict', ...config);
  for (const [program, port] of Object.entries({ server, client })) {
    await timed('B', `\`policysync ${program}\`, until ready`, () =>
      start('policysync', [program, ...config], { cwd: own, url: `http://127.0.0.1:${port}/ready` }),
    );
  }

  const decision = async (input) => {
    const url = `http://127.0.0.1:${engine}/v1/data/app/rbac/allow`;
    const answer = await fetch(url, { method: 'POST', body: JSON.stringify({ input: { user: 'alice', ...input } }) });
    return (await answer.json()).result;
  };
  const decides = (text, wanted) =>
    timed('B', text, async () => {
      const result = await decision({ action: 'read' });
      if (result !== wanted) throw new Fatal(`${text}: it is ${result}`);
    });
  await decides('a decision: false', false);
  const users = ['--dst-path', '/users', '--data', '{"alice":{"role":"viewer"}}'];
  await policysync('publish', ...config, ...users, '--wait', '10');
  await decides('the decision: true', true);
  await timed('B', '`git commit`, until it decides (polled every 5 s)', async () => {
    appendFileSync(join(repo, 'app', 'rbac.rego'), OWNERS);
    await git('commit', '--all', '-m', 'Owners may do anything with their documents');
    await until(() => decision({ action: 'delete', owner: 'alice' }), 'the commit decides');
  });
  await policysync('doctor', '--strict', ...config);
  return statSync(join(checkout, `policysync-${version}.tgz`)).size;
}

/** Prints the steps, and each part against its goal; returns whether all goals are met. */
function print(steps) {
  const rows = [['Step', 'Seconds', 'Goal', '']];
  let isMet = true;
  for (const { part, what, goalSeconds } of PARTS) {
    const own = steps.filter((step) => step.part === part);
    for (const { text, seconds } of own) rows.push([text, seconds.toFixed(1), '', '']);
    const total = own.reduce((sum, { seconds }) => sum + seconds, 0);
    isMet &&= total <= goalSeconds;
    rows.push([
      `**${part}: ${what}**`,
      `**${total.toFixed(1)}**`,
      `${goalSeconds}`,
      total <= goalSeconds ? 'met' : 'missed',
    ]);
  }
  const [header, ...body] = rows.map((row) => `| ${row.join(' | ')} |`);
  console.log([header, '|---|--:|--:|---|', ...body].join('\n'));
  return isMet;
}

function megabytes(bytes) {
  return `${Math.round(bytes / 1e6)} MB`;
}
