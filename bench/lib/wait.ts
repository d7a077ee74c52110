import { request } from 'undici';
import type { Program } from './program.js';

/** Longest wait for any program to be ready; OPAL takes seconds, more on a busy machine. */
const READY_MS = 60_000;
const LOOK_EVERY_MS = 10;

/** Waits until a condition holds; looks every few milliseconds. Throws after `withinMs`, with what was waited for. */
export async function until(
  what: string,
  withinMs: number,
  condition: () => Promise<boolean> | boolean,
): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within ${withinMs} ms: ${what}`);
    await pause(LOOK_EVERY_MS);
  }
}

/** Waits until a program answers 200 at a URL. Throws when it ends before. */
export async function answers(program: Program, url: string, withinMs = READY_MS): Promise<void> {
  try {
    await until(`${url} answers`, withinMs, async () => {
      program.mustRun();
      return (await statusOf(url)) === 200;
    });
  } catch (cause) {
    throw new Error(program.output(), { cause });
  }
}

/** The status of an answer; 0 for none. */
async function statusOf(url: string): Promise<number> {
  try {
    const { statusCode, body } = await request(url);
    await body.dump();
    return statusCode;
  } catch {
    return 0; // it does not listen yet
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
