import { firstOf } from '../../../lib/run/async.js';
import type { CommandIo, CommandOutput } from '../../kit/command-io.js';
import { endAtOnce } from '../../kit/end-program.js';
import { ExitError } from '../../kit/run-program.js';
import { PartEnded } from './ask.js';
import { nextSteps } from './next-steps.js';
import { ownCommand } from './own-command.js';
import { createPrinter } from './print.js';
import { Stage } from './stage.js';
import { STEPS, tellStory } from './story.js';

const TITLE =
  'PolicySync demo: a sync server and a sync client keep an OPA current with a git repository and a data source';
const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
/** What a shell shows for a program that Ctrl-C ended. */
const INTERRUPTED = 130;
/**
 * npm passes a Ctrl-C on that the terminal has sent us already: only what comes later is a second
 * one.
 */
const SECOND_SIGNAL_AFTER_MS = 1_000;

/**
 * Shows the whole of it on this machine: makes a policy repository and a data source in a temporary
 * folder, starts server and client of this package, and changes data and policy while decisions are
 * watched. `once`: ends after the last decision; else it stays up until Ctrl-C. Leaves nothing
 * behind. Rejects with `demo_failed`, also for a stop before the last decision, with exit code 130.
 */
export async function runDemo({ once, io }: { once: boolean; io: CommandIo }): Promise<void> {
  const { env, stdout, stderr } = io;
  const print = createPrinter(stdout, STEPS, env);
  const { signal, release } = stopSignal([stdout, stderr]);
  const stage = new Stage({ print, signal, env });
  const lastResort = (): void => stage.abandon();
  process.on('exit', lastResort);
  print.title(TITLE);
  let isTold = false;
  try {
    await tellStory(stage);
    isTold = true;
    if (!once) await stayUp(stage);
  } catch (error) {
    if (!signal.aborted) {
      stage.showLogs();
      throw error;
    }
  } finally {
    if (signal.aborted) print.title('\nstopping ...');
    await stage.end();
    process.off('exit', lastResort);
    release();
    if (signal.aborted) print.title('everything has ended, and the temporary folder is gone');
  }
  if (!isTold) throw new ExitError('demo_failed', 'stopped before the last decision', INTERRUPTED, { isQuiet: true });
}

/**
 * Prints what to try next, and waits until the demo is stopped. Fails when a part ends by itself.
 */
async function stayUp(stage: Stage): Promise<void> {
  const { print, env, signal, parts } = stage;
  for (const { title, lines } of nextSteps({
    ...{ server: stage.url('server'), client: stage.url('client'), engine: stage.url('engine') },
    ...{ repo: stage.repo, logs: parts.map(({ logFile }) => logFile), command: ownCommand(env) },
    isProxied: Boolean(env.http_proxy ?? env.ALL_PROXY ?? env.all_proxy),
  })) {
    print.title(`\n${title}`);
    print.line(lines.join('\n'));
  }
  print.title('\nAll of this runs until you press Ctrl-C, and leaves nothing behind.');
  const stopped = new Promise<undefined>((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
  const gone = await firstOf([stopped, ...parts.map(async (part) => new PartEnded(part, await part.ended))]);
  signal.throwIfAborted();
  if (gone !== undefined) throw gone;
}

/**
 * Aborts when the demo is to end: a signal, or nobody reads any more what it prints. A second
 * signal ends the process at once.
 */
function stopSignal(streams: readonly CommandOutput[]): { signal: AbortSignal; release(): void } {
  const controller = new AbortController();
  let firstMs: number | undefined;
  const stop = (): void => {
    firstMs ??= performance.now();
    controller.abort(new Error('the demo was stopped'));
    if (performance.now() - firstMs > SECOND_SIGNAL_AFTER_MS) endAtOnce(INTERRUPTED);
  };
  for (const name of STOP_SIGNALS) process.on(name, stop);
  for (const stream of streams) stream.on('error', stop);
  return {
    signal: controller.signal,
    release: () => {
      for (const name of STOP_SIGNALS) process.off(name, stop);
      for (const stream of streams) stream.off('error', stop);
    },
  };
}
