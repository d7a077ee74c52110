import { type Answer, request } from '../support/http.js';

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
