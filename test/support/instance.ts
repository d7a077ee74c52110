import { join } from 'node:path';
import { type CommandResult, type StartedCommand, startCommand } from './command.js';
import { field, request } from './http.js';
import { freePort } from './opa.js';
import { NO_GATE } from './start-server.js';
import { tempDir } from './temp-dir.js';
import { until } from './until.js';

/** A server instance in a process of its own, with the same port and state folder at each start. `await using` kills and removes it. */
export interface Instance extends AsyncDisposable {
  readonly url: string;
  readonly stateDir: string;
  /** Starts it and waits until it answers. */
  start(): Promise<void>;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** SIGTERM; its end. */
  terminate(): Promise<CommandResult>;
  /** How it ended by itself. */
  ended(): Promise<CommandResult>;
  /** Its log lines since it was started last. */
  log(): unknown[];
  /** The answer of GET /healthcheck. */
  health(): Promise<unknown>;
}

/** Starts an instance with these settings. */
export async function startInstance(env: Readonly<Record<string, string>>): Promise<Instance> {
  const dir = await tempDir();
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const stateDir = join(dir.path, 'state');
  let command: StartedCommand | undefined;
  const health = async (): Promise<unknown> => (await request(`${url}/healthcheck`)).json;
  const start = async (): Promise<void> => {
    command = startCommand('server', ['run'], {
      SYNC_SERVER_HOST: '127.0.0.1',
      SYNC_SERVER_BIND_PORT: String(port),
      SYNC_STATE_DIR: stateDir,
      ...NO_GATE,
      ...env,
    });
    await command.says(/listening/);
  };
  const kill = async (): Promise<void> => {
    await command?.[Symbol.asyncDispose]();
  };
  const ended = (): Promise<CommandResult> => {
    if (command === undefined) throw new Error('it was never started');
    return command.result;
  };
  try {
    await start();
  } catch (error) {
    await kill();
    await dir[Symbol.asyncDispose]();
    throw error;
  }
  return {
    url,
    stateDir,
    start,
    kill,
    terminate: () => {
      command?.process.kill('SIGTERM');
      return ended();
    },
    ended,
    log: () =>
      (command?.stderr() ?? '')
        .split('\n')
        .filter((line) => line.startsWith('{') && line.endsWith('}'))
        .map((line) => JSON.parse(line) as unknown),
    health,
    [Symbol.asyncDispose]: async () => {
      await kill();
      await dir[Symbol.asyncDispose]();
    },
  };
}

/** Waits until all instances have seen the same rows of the log and serve the same commit; answers its head. */
export async function agree(instances: readonly Instance[]): Promise<number> {
  return await until(
    async () => {
      const all = await Promise.all(instances.map(({ health }) => health()));
      const seen = all.map((one) =>
        JSON.stringify([field(one, 'status'), field(one, 'update_log', 'head'), field(one, 'policy', 'head')]),
      );
      const isSame = seen.every((one) => one === seen[0]) && field(all[0], 'status') === 'ok';
      return isSame && Number(field(all[0], 'update_log', 'head'));
    },
    { withinMs: 20_000, what: 'the instances agree' },
  );
}
