import { Fatal } from './run.mjs';

/** Longest wait for one answer of a program on this machine. */
const ANSWER_MS = 5_000;

/** Asks for JSON: a POST where there is a body. Answers undefined where nobody answers, or not with JSON. */
export async function askJson(url, signal, body) {
  try {
    const response = await fetch(url, {
      signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]),
      ...(body === undefined
        ? {}
        : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    });
    return { status: response.status, json: await response.json() };
  } catch {
    signal.throwIfAborted();
    return undefined; // not there (yet); whoever waits for it gives up at the time limit
  }
}

/**
 * Looks until `look` answers something other than undefined, and answers that. Fails with `what` after `withinMs`, or as
 * soon as one of `parts` (started programs) has ended.
 */
export async function waitFor(look, { signal, withinMs, everyMs = 50, what, parts = [] }) {
  const deadline = performance.now() + withinMs;
  for (;;) {
    signal.throwIfAborted();
    const found = await look();
    if (found !== undefined) return found;
    const over = parts.find((part) => part.isOver());
    if (over !== undefined) throw new PartEnded(over, await over.ended);
    if (performance.now() > deadline) {
      throw new Fatal(
        `${what} did not happen within ${withinMs / 1000} s; the logs above say why. If this machine is very busy, try again.`,
      );
    }
    await new Promise((resolve) => {
      setTimeout(resolve, everyMs);
    });
  }
}

/** A started program is gone. */
export class PartEnded extends Fatal {
  constructor(part, how) {
    super(`The ${part.name} is gone (${how}); its log above says why.`);
    this.part = part;
  }
}
