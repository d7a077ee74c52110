// A sample application: it asks the policy before it answers, and knows nothing of PolicySync.
//
//   curl 'http://localhost:3000/?user=alice&action=read'
import { createServer } from 'node:http';

const { OPA_URL = 'http://localhost:8181', POLICY_PATH = 'app/rbac/allow', PORT = '3000' } = process.env;

const server = createServer(async (request, response) => {
  const { searchParams } = new URL(request.url ?? '/', 'http://application');
  const input = { user: searchParams.get('user'), action: searchParams.get('action') ?? 'read' };
  const { status, answer } = await decide(input);
  response
    .writeHead(status, { 'content-type': 'application/json' })
    .end(`${JSON.stringify({ ...input, ...answer })}\n`);
});

/** Whoever is not allowed by name is denied, also while the engine is away. */
async function decide(input) {
  try {
    const response = await fetch(`${OPA_URL}/v1/data/${POLICY_PATH}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ input }),
      signal: AbortSignal.timeout(2000),
    });
    const { result } = await response.json();
    return result === true ? { status: 200, answer: { allowed: true } } : { status: 403, answer: { allowed: false } };
  } catch (error) {
    return { status: 503, answer: { allowed: false, error: `no decision: ${error.message}` } };
  }
}

server.listen(Number(PORT), () => console.log(`listening on port ${PORT}`));
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => server.close());
