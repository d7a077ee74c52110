import { Agent, request } from 'undici';
import { selectEngine } from '../../../client/engine/engine-kind.js';
import { type AcquiredOpa, acquireOpa } from '../../../client/engine/get-opa/acquire-opa.js';
import { OPA_VERSION } from '../../../client/engine/get-opa/opa-version.js';
import { openEngineAccess } from '../../../client/engine/opa/engine-access.js';
import type { ClientSettings } from '../../../client/options.js';
import { EngineArtifact } from '../../../embedded/artifact.js';
import { errorText, SyncError } from '../../../lib/errors.js';
import { jsonOrUndefined } from '../../../lib/json/json-text.js';
import { httpConnector } from '../../../lib/net/connect.js';
import { connectText } from '../../../lib/net/connect-failure.js';
import { redactUrl, silentLogger } from '../../../lib/observe/log.js';
import { errorFinding, type Finding, okFinding, warningFinding } from '../../kit/findings.js';
import type { Check } from './checks.js';

const ENGINE = { id: 'engine', subject: 'policy engine' };

/**
 * Which engine the client would use, and whether it is there, with its version. Downloads nothing.
 */
export function engineCheck(
  settings: ClientSettings,
  { env, limitMs }: { env: NodeJS.ProcessEnv; limitMs: number },
): Check {
  return {
    ...ENGINE,
    remedy: 'Check the OPA program, or the engine at SYNC_POLICY_STORE_URL: it does not respond.',
    run: async (signal) => {
      const kind = selectEngine(settings)?.kind;
      if (kind === 'external') return [await external(settings, { env, limitMs }, signal)];
      if (kind === 'embedded') return [await embedded('set by SYNC_ENGINE')];
      return [await programOr(kind === 'inline' ? settings.engine : undefined, kind, settings, env, signal)];
    },
  };
}

/**
 * The OPA program for an inline engine; without one, the embedded engine where the settings leave
 * the choice.
 */
async function programOr(
  engine: ClientSettings['engine'],
  kind: 'inline' | undefined,
  { inlineEngineExecPath: execPath }: ClientSettings,
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<Finding> {
  const { id, subject } = ENGINE;
  let opa: AcquiredOpa;
  try {
    opa = await acquireOpa({ execPath, env, allowDownload: false, signal });
  } catch (error) {
    signal.throwIfAborted();
    if (kind === undefined) return await embedded('there is no OPA program here');
    if (engine === 'inline' && error instanceof SyncError && error.code === 'engine_not_found') {
      const message = 'inline, and there is no OPA program here yet: the client gets it at its first start';
      return warningFinding(id, subject, message, 'Get it now with `policysync opa get`.');
    }
    const remedy = 'Run `policysync opa get`, or set SYNC_INLINE_ENGINE_EXEC_PATH to an OPA program.';
    return errorFinding(id, subject, `inline: ${errorText(error)}`, remedy);
  }
  return okFinding(id, subject, `inline OPA ${opa.version} (${opa.path})`);
}

async function embedded(why: string): Promise<Finding> {
  const artifact = new EngineArtifact();
  await artifact.load(); // compared with its sums
  artifact.release();
  return okFinding(ENGINE.id, ENGINE.subject, `embedded OPA ${OPA_VERSION}: ${why}`);
}

/** Asks an engine that somebody else runs, with the credentials of the client. */
async function external(
  settings: ClientSettings,
  { env, limitMs }: { env: NodeJS.ProcessEnv; limitMs: number },
  signal: AbortSignal,
): Promise<Finding> {
  const { id, subject } = ENGINE;
  const place = `external OPA at ${redactUrl(settings.engineUrl)}`;
  const access = await openEngineAccess(settings, { kind: 'external', log: silentLogger(), env });
  const dispatcher = new Agent({ connect: httpConnector({ timeoutMs: limitMs, tls: access.tls }) });
  try {
    const authorization = await access.auth.authorization(signal);
    const { statusCode: status, body } = await request(
      `${settings.engineUrl}/v1/query?q=x%20%3D%20opa.runtime().version`,
      {
        ...{ dispatcher, signal },
        headers: authorization === undefined ? {} : { authorization },
      },
    );
    const text = await body.text();
    if (status === 401 || status === 403) {
      const remedy = 'Check SYNC_POLICY_STORE_AUTH_TYPE with its settings, and system.authz of the engine.';
      return errorFinding(id, subject, `${place} does not accept the credentials of the client (${status})`, remedy);
    }
    const version = /"x":\s*"([^"]{1,40})"/.exec(text)?.[1];
    if (status !== 200 || version === undefined || jsonOrUndefined(text) === undefined) {
      return errorFinding(
        id,
        subject,
        `${place} answers with ${status}, not as an OPA does`,
        'Correct SYNC_POLICY_STORE_URL.',
      );
    }
    return okFinding(id, subject, `${place}, version ${version}`);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof SyncError) throw error;
    const message = `${place} does not answer: ${connectText(error, 'SYNC_POLICY_STORE_TLS_CA')}`;
    return errorFinding(id, subject, message, 'Start it, or correct SYNC_POLICY_STORE_URL.');
  } finally {
    await dispatcher.destroy();
    await access.close();
  }
}
