// An application that embeds the client and asks it: before each route, and about each document of a list.
//
//   npm start                                   with a sync server of its own, which serves ./policy
//   SYNC_SERVER_URL=http://... npm start        with yours
import { fastify } from 'fastify';
import { CLIENT_SETTINGS, createClient, createLogger, loadSettings } from 'policysync';
import { policyGuard } from 'policysync/fastify';
import { startOwnServer } from './own-server.mjs';

const { env } = process;
const log = createLogger('app', { level: 'warn', format: 'json' });
const server = env.SYNC_SERVER_URL === undefined ? await startOwnServer(log) : undefined;

// Every SYNC_... variable counts, as for policysync client. Unless one says otherwise, the engine is the one inside the package.
const { values } = loadSettings(CLIENT_SETTINGS, { env });
const client = createClient(
  // Without a port: nobody asks the client but this program.
  { ...values, engine: values.engine ?? 'embedded', serverUrl: server?.url ?? values.serverUrl, port: undefined },
  { log, decisions: { waitMs: 30_000 } },
);

const TEXTS = { handbook: 'How we work', plans: 'What we will do', salaries: 'Who gets what' };
const app = fastify({ loggerInstance: log });

// Stands in for authentication: a real application verifies who it is.
const user = (request) => request.headers['x-user'] ?? null;

await app.register(policyGuard, { client, path: 'app/http/allow', user });

app.get('/documents', async (request) => {
  const documents = Object.keys(TEXTS);
  const decisions = await client.decideMany(
    'app/documents/read',
    documents.map((document) => ({ user: user(request), document })),
  );
  return documents.filter((_, index) => decisions[index].allowed);
});

app.get('/documents/:id', async ({ params: { id } }, reply) => {
  return Object.hasOwn(TEXTS, id) ? { id, text: TEXTS[id] } : reply.code(404).send({ error: 'not_found' });
});

// For everybody: whether decisions can be made.
app.get('/healthz', { config: { policy: false } }, async (_, reply) => {
  const { kind, policy } = await client.decide('app/http/allow', {}, { onUnavailable: 'deny', waitMs: 0 });
  return reply.code(kind === 'unavailable' ? 503 : 200).send({ kind, policy });
});

client.onChange('app/documents/read', ({ what }) => console.log(`who may read what has changed (${what})`));

async function stop() {
  await app.close();
  await client.stop();
  await server?.stop();
}

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, stop);

// Rejects where waiting does not help; decisions are refused from then on. The log has said why.
client.ended().catch(async () => {
  process.exitCode = 1;
  await stop();
});

try {
  await client.start();
  const url = await app.listen({ host: '127.0.0.1', port: Number(env.PORT ?? 3000) });
  console.log(`listening at ${url}; try: curl -H 'x-user: ann' ${url}/documents`);
} catch (error) {
  await stop();
  throw error;
}
