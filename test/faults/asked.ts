import { type Answer, request } from '../support/http.js';
import { until } from '../support/until.js';

/** What judges a run asks longer than a test would: a busy machine is no fault of what is asked. */
const PATIENCE_MS = 60_000;

/** The answer of a GET; a failure says what was asked. */
export async function asked(url: string): Promise<Answer> {
  try {
    return await request(url, { signal: AbortSignal.timeout(PATIENCE_MS) });
  } catch (cause) {
    throw new Error(`GET ${url}: ${String(cause)}`, { cause });
  }
}

/** The same, where the server may say 503 for a moment: it connects to its backbone anew, and asks to be asked again. */
export async function askedUntilReady(url: string): Promise<Answer> {
  return await until(
    async () => {
      const answer = await asked(url);
      return answer.status !== 503 && answer;
    },
    { withinMs: PATIENCE_MS, what: `GET ${url} is answered by other than 503` },
  );
}
