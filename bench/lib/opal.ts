import { join } from 'node:path';
import { opalPrograms } from '../../test/interop/opal-python.js';
import { freePort } from '../../test/support/opa.js';
import { type Program, startProgram } from './program.js';
import { prefixed, type System } from './system.js';
import { answers } from './wait.js';

/** It puts one module after the other, and OPA compiles all of them each time: two hundred take more than a minute. */
const LOADING_MS = 300_000;

/** OPAL from the Python package index, in the virtual environment of the interop tests. Throws where there is no Python. */
export async function opal({ opa }: { opa: string }): Promise<System> {
  const bin = await opalPrograms();
  if (bin === undefined) throw new Error('--peer opal needs python3 with the venv module');
  const launch = (program: 'server' | 'client', dir: string, env: Record<string, string>): Program =>
    startProgram({
      command: join(bin, `opal-${program}`),
      args: ['run'],
      cwd: dir,
      env: { PYTHONWARNINGS: 'ignore', OPAL_LOG_COLORIZE: 'false', ...env },
      logFile: join(dir, `opal-${program}.log`),
    });
  return {
    name: 'opal',
    needsAnswers: true,
    launchServer: async ({ dir, repoUrl, entries = [], port: wanted, ...settings }) => {
      const port = wanted ?? (await freePort());
      const url = `http://127.0.0.1:${port}`;
      const program = launch('server', dir, {
        OPAL_SERVER_BIND_PORT: String(port),
        OPAL_POLICY_REPO_CLONE_PATH: join(dir, 'clone'),
        OPAL_LEADER_LOCK_FILE_PATH: join(dir, 'leader.lock'),
        ...(repoUrl === undefined ? {} : { OPAL_POLICY_REPO_URL: repoUrl }),
        ...(entries.length === 0 ? {} : { OPAL_DATA_CONFIG_SOURCES: JSON.stringify({ config: { entries } }) }),
        ...prefixed('OPAL_', 'opal', settings),
      });
      return { ...program, url, ready: () => answers(program, `${url}/`) };
    },
    launchClient: async ({ dir, serverUrl, healthDocument = false, ...settings }) => {
      const [apiPort, enginePort] = [await freePort(), await freePort()];
      const apiUrl = `http://127.0.0.1:${apiPort}`;
      const engineUrl = `http://127.0.0.1:${enginePort}`;
      const program = launch('client', dir, {
        OPAL_SERVER_URL: serverUrl,
        OPAL_CLIENT_API_SERVER_PORT: String(apiPort),
        OPAL_POLICY_STORE_URL: engineUrl,
        OPAL_INLINE_OPA_EXEC_PATH: opa,
        OPAL_INLINE_OPA_CONFIG: JSON.stringify({ addr: `127.0.0.1:${enginePort}` }),
        ...(healthDocument ? { OPAL_OPA_HEALTH_CHECK_POLICY_ENABLED: 'true' } : {}),
        ...prefixed('OPAL_', 'opal', settings),
      });
      return { ...program, apiUrl, engineUrl, ready: () => answers(program, `${apiUrl}/ready`, LOADING_MS) };
    },
  };
}
