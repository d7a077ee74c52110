import { join } from 'node:path';
import { freePort } from '../../test/support/opa.js';
import { type Program, startProgram } from './program.js';
import { prefixed, type Settings, type System } from './system.js';
import { answers } from './wait.js';

/** What our programs are measured with. */
interface PolicySyncOptions {
  /** Has the compiled `server.js` and `client.js`. */
  readonly cliDir: string;
  /** The executable of inline engines. Undefined: the engine is embedded. */
  readonly opa: string | undefined;
  /** Takes a CPU profile of each process. */
  readonly profileDir?: string;
}

/** Our own programs. */
export function policySync(name: string, { cliDir, opa, profileDir }: PolicySyncOptions): System {
  const launch = (
    program: 'server' | 'client',
    dir: string,
    env: Record<string, string>,
    { nodeArgs = [] }: Settings,
  ): Program =>
    startProgram({
      command: process.execPath,
      args: [...nodeArgs, ...profiling(program, profileDir), join(cliDir, `${program}.js`), 'run'],
      cwd: dir,
      env: { NODE_ENV: 'production', ...env },
      logFile: join(dir, `${program}.log`),
    });
  return {
    name,
    needsAnswers: false,
    launchServer: async ({ dir, repoUrl, entries = [], port: wanted, ...settings }) => {
      const port = wanted ?? (await freePort());
      const url = `http://127.0.0.1:${port}`;
      const program = launch(
        'server',
        dir,
        {
          SYNC_SERVER_BIND_PORT: String(port),
          SYNC_STATE_DIR: join(dir, 'state'),
          // OPAL and R compile nothing before they serve it; the scenario webhook measures what that adds.
          SYNC_POLICY_GATE: 'off',
          ...(repoUrl === undefined ? {} : { SYNC_POLICY_REPO_URL: repoUrl }),
          ...(entries.length === 0 ? {} : { SYNC_DATA_CONFIG_SOURCES: JSON.stringify({ config: { entries } }) }),
          ...prefixed('SYNC_', 'policysync', settings),
        },
        settings,
      );
      return { ...program, url, ready: () => answers(program, `${url}/`) };
    },
    launchClient: async ({ dir, serverUrl, healthDocument = false, ...settings }) => {
      const [apiPort, enginePort] = [await freePort(), await freePort()];
      const apiUrl = `http://127.0.0.1:${apiPort}`;
      const engineUrl = `http://127.0.0.1:${enginePort}`;
      const program = launch(
        'client',
        dir,
        {
          SYNC_SERVER_URL: serverUrl,
          SYNC_CLIENT_API_SERVER_PORT: String(apiPort),
          SYNC_POLICY_STORE_URL: engineUrl,
          ...(opa === undefined ? { SYNC_ENGINE: 'embedded' } : { SYNC_INLINE_ENGINE_EXEC_PATH: opa }),
          ...(healthDocument ? { SYNC_ENGINE_HEALTH_CHECK_POLICY_ENABLED: 'true' } : {}),
          ...prefixed('SYNC_', 'policysync', settings),
          ...(opa === undefined ? prefixed('SYNC_', 'embedded', { own: settings.own ?? {} }) : {}),
        },
        settings,
      );
      return { ...program, apiUrl, engineUrl, ready: () => answers(program, `${apiUrl}/ready`) };
    },
  };
}

function profiling(program: string, dir: string | undefined): string[] {
  if (dir === undefined) return [];
  return ['--cpu-prof', `--cpu-prof-dir=${dir}`, `--cpu-prof-name=${program}-${Date.now()}.cpuprofile`];
}
