// Server and client inside one program, in place of `policysync server` and `policysync client`.
//
//   npm run build && node examples/embed.mjs <policy repository> [branch]
import { CLIENT_SETTINGS, createClient, createLogger, createServer, loadSettings, SERVER_SETTINGS } from 'policysync';

const [repository, branch = 'main'] = process.argv.slice(2);
if (repository === undefined) throw new Error('which repository? node examples/embed.mjs <policy repository> [branch]');
const { env } = process;
const log = (name) => createLogger(name, { level: 'info', format: 'pretty' });

// The settings that the programs have, under the same names. Here some are fixed, the others come from the environment.
const serverSettings = loadSettings(SERVER_SETTINGS, {
  env: {
    ...env,
    SYNC_POLICY_REPO_URL: repository,
    SYNC_POLICY_REPO_MAIN_BRANCH: branch,
    SYNC_POLICY_REPO_POLLING_INTERVAL: '5',
  },
}).values;
// The program has a default for the state folder; the library asks for one.
const server = createServer({ ...serverSettings, stateDir: '.policysync-state' }, { log: log('server'), env });
const client = createClient(loadSettings(CLIENT_SETTINGS, { env }).values, {
  log: log('client'),
  env,
  rest: {}, // an embedded engine listens, too, as in the program
});

// A stop may come at any time, also while the first start still looks for an OPA: that start then rejects.
let isStopping = false;
async function stop() {
  isStopping = true;
  await client.stop();
  await server.stop();
}

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, stop);

// Rejects where trying again does not help; the log has said why.
for (const part of [server, client]) {
  part.ended().catch(async () => {
    process.exitCode = 1;
    await stop();
  });
}

try {
  await server.start();
  await client.start();
} catch (error) {
  if (!isStopping) throw error;
}
