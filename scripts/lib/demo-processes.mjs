import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { Fatal } from './run.mjs';

/** Process groups keep Ctrl-C from reaching the children beside us: they are ended by us, in order. */
const GROUPS = process.platform !== 'win32';
/** Server and client end within a second or two; a second SIGTERM makes them end at once, engine included. */
const ASK_AGAIN_MS = 8_000;
const KILL_MS = 3_000;
/** What only runs to its end (compiler, git) has nothing to clean up that we do not remove. */
const RUN_KILL_MS = 1_000;

/** Every program that the demo starts, so that none is left. `signal` ends those that {@link run} waits for. */
export function createProcesses(logDir, signal) {
  const running = new Map();

  function launch(command, args, options) {
    const child = spawn(command, args, { detached: GROUPS, ...options });
    const closed = new Promise((resolve) => {
      child.once('error', (error) => resolve({ error }));
      child.once('close', (code, by) => resolve({ code, by }));
    });
    running.set(child, closed);
    void closed.then(() => running.delete(child));
    return { child, closed };
  }

  return {
    /** Runs a program to its end; answers `{code, output}`. Rejects when it cannot be started or the demo is stopped. */
    async run(command, args, { onOutput, missing, ...options } = {}) {
      signal.throwIfAborted();
      const { child, closed } = launch(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
      let output = '';
      for (const stream of [child.stdout, child.stderr]) {
        stream?.setEncoding('utf8').on('data', (text) => {
          output += text;
          onOutput?.(text);
        });
      }
      let kill;
      const stop = () => {
        sendSignal(child, 'SIGTERM');
        kill = setTimeout(() => sendSignal(child, 'SIGKILL'), RUN_KILL_MS);
      };
      signal.addEventListener('abort', stop, { once: true });
      const end = await closed;
      clearTimeout(kill);
      signal.removeEventListener('abort', stop);
      signal.throwIfAborted();
      if (end.error !== undefined) {
        throw new Fatal(missing ?? `${command} cannot be started: ${end.error.message}`, { cause: end.error });
      }
      return { code: end.code ?? 1, output: output.trimEnd() };
    },
    /** Starts a program that stays; what it prints goes into a file. */
    start(name, args, env) {
      const logFile = join(logDir, `${name}.log`);
      const fd = openSync(logFile, 'w');
      const { child, closed } = launch(process.execPath, args, { env, stdio: ['ignore', fd, fd] });
      closeSync(fd);
      let over = false;
      const ended = closed.then(({ error, code, by }) => {
        over = true;
        return error?.message ?? (by ? `it was ended by ${by}` : `it ended with code ${code}`);
      });
      return {
        name,
        logFile,
        ended,
        log: () => readFileSync(logFile, 'utf8'),
        isOver: () => over,
        /** Ends it: SIGTERM, again, and by force. Resolves when it is gone. */
        async stop() {
          for (const [how, ms] of [
            ['SIGTERM', ASK_AGAIN_MS],
            ['SIGTERM', KILL_MS],
            ['SIGKILL', KILL_MS],
          ]) {
            if (over) return;
            if (how === 'SIGTERM') child.kill(how);
            else sendSignal(child, how);
            await Promise.race([closed, delay(ms)]);
          }
        },
      };
    },
    /** The last resort, when this process ends without its cleanup: asks all that still run to end. */
    abandon() {
      for (const child of running.keys()) child.kill('SIGTERM');
    },
  };
}

/** To the whole group, so that what a child started ends too. */
function sendSignal(child, name) {
  try {
    if (GROUPS && child.pid !== undefined) process.kill(-child.pid, name);
    else child.kill(name);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error; // it has just ended by itself
  }
}

function delay(ms) {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}

/** The last lines of a log, for a failure. */
export function lastLines(text, count) {
  return text.trimEnd().split('\n').slice(-count).join('\n');
}

/** The wanted port of 127.0.0.1 where nothing listens there, else a free one. */
export async function choosePort(wanted) {
  return (await tryListen(wanted)) ?? (await tryListen(0));
}

function tryListen(port) {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error) => {
      if (port === 0) reject(error);
      else resolve(undefined);
    });
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
      const { port: taken } = server.address();
      server.close(() => resolve(taken));
    });
  });
}
