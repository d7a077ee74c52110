// Shows the whole of it on this machine: builds, looks for an OPA, makes a policy repository and a data source in a temporary
// folder, starts server and client, and changes data and policy while authorization decisions are watched.
//
//   npm run demo                  stays up until Ctrl-C, for trying things out
//   npm run demo -- --once        ends after the last decision
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createPrinter } from './lib/demo-print.mjs';
import { STEPS, Story } from './lib/demo-story.mjs';
import { Fatal, main } from './lib/run.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
/** What a shell shows for a program that Ctrl-C ended. */
const INTERRUPTED = 130;
/** npm passes a Ctrl-C on that the terminal has sent us already: only what comes later is a second one. */
const SECOND_SIGNAL_AFTER_MS = 1_000;

function options(args) {
  const unknown = args.find((arg) => arg !== '--once');
  if (unknown !== undefined) {
    throw new Fatal(`Unknown argument ${unknown}; there is --once, which ends the demo after the last decision.`);
  }
  return { once: args.includes('--once') };
}

/** Aborts when the demo is to end: a signal, or nobody reads any more what it prints. A second signal calls `onSecond`. */
function stopSignal(onSecond) {
  const controller = new AbortController();
  let firstMs;
  const stop = () => {
    firstMs ??= performance.now();
    controller.abort(new Error('the demo was stopped'));
    if (performance.now() - firstMs > SECOND_SIGNAL_AFTER_MS) onSecond();
  };
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(name, stop);
  for (const stream of [process.stdout, process.stderr]) stream.on('error', stop);
  return controller.signal;
}

await main(async () => {
  const { once } = options(process.argv.slice(2));
  const print = createPrinter(process.stdout, STEPS, process.env);
  const signal = stopSignal(() => process.exit(INTERRUPTED));
  const story = new Story(ROOT, { print, signal });
  const lastResort = () => story.abandon();
  process.on('exit', lastResort);
  print.title(
    'PolicySync demo: a sync server and a sync client keep an OPA current with a git repository and a data source',
  );
  let isTold = false;
  try {
    await story.tell();
    isTold = true;
    if (!once) await story.stayUp();
    return 0;
  } catch (error) {
    if (signal.aborted) return isTold ? 0 : INTERRUPTED;
    story.showLogs();
    throw error;
  } finally {
    if (signal.aborted) print.title('\nstopping ...');
    await story.end();
    process.off('exit', lastResort);
    if (signal.aborted) print.title('everything has ended, and the temporary folder is gone');
  }
});

// Everything has ended; an idle connection of a question that was cut short would hold the process for seconds.
process.exit();
