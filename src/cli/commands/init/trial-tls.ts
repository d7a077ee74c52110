import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { errorText } from '../../../lib/errors.js';
import { childEnv } from '../../../lib/run/child-env.js';
import { UsageError } from '../../kit/run-program.js';
import type { NewFile } from './files.js';

const exec = promisify(execFile);

/** Files of a trial authority and of the certificate that it signed for the server. */
export const TLS_FILES = {
  ca: 'secrets/tls/ca.pem',
  caKey: 'secrets/tls/ca.key',
  cert: 'secrets/tls/server.pem',
  key: 'secrets/tls/server.key',
} as const;

const DAYS = '365';
const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];

/**
 * Makes an authority and a certificate of the server for these names, by the `openssl` program.
 * Throws {@link UsageError} without it.
 */
export async function makeTrialTls(names: readonly string[], env: NodeJS.ProcessEnv): Promise<NewFile[]> {
  const dir = await mkdtemp(join(tmpdir(), 'policysync-init-'));
  const at = (file: string): string => join(dir, file);
  const openssl = (...args: string[]): Promise<unknown> =>
    exec('openssl', args, { env: { ...childEnv(env, 'git'), OPENSSL_CONF: at('openssl.cnf') } });
  const altNames = names.map((name) => (isIP(name) === 0 ? `DNS:${name}` : `IP:${name}`)).join(',');
  try {
    // No settings of this machine: names and extensions are those below.
    await writeFile(at('openssl.cnf'), '[req]\ndistinguished_name=name\nprompt=no\n[name]\nCN=PolicySync\n');
    await openssl(
      ...['req', '-x509', ...NEW_KEY, '-days', DAYS, '-subj', '/CN=PolicySync trial authority'],
      ...['-addext', 'basicConstraints=critical,CA:TRUE,pathlen:0', '-addext', 'keyUsage=critical,keyCertSign,cRLSign'],
      ...['-keyout', at('ca.key'), '-out', at('ca.pem')],
    );
    // The health check identifies itself by the server's own certificate, where callers must have
    // one.
    await writeFile(
      at('server.ext'),
      `subjectAltName=${altNames}\nextendedKeyUsage=serverAuth,clientAuth\nbasicConstraints=critical,CA:FALSE\n`,
    );
    await openssl(
      'req',
      '-new',
      ...NEW_KEY,
      '-subj',
      '/CN=PolicySync server',
      '-keyout',
      at('server.key'),
      '-out',
      at('server.csr'),
    );
    await openssl(
      ...['x509', '-req', '-in', at('server.csr'), '-days', DAYS, '-extfile', at('server.ext')],
      ...['-CA', at('ca.pem'), '-CAkey', at('ca.key'), '-CAcreateserial', '-out', at('server.pem')],
    );
    const file = async (path: string, name: string, mode: NewFile['mode'], about: string): Promise<NewFile> => ({
      ...{ path, mode, about },
      text: await readFile(at(name), 'utf8'),
    });
    return [
      await file(TLS_FILES.ca, 'ca.pem', 0o644, 'the trial authority: clients trust it'),
      await file(TLS_FILES.caKey, 'ca.key', 0o600, 'its key: keep it away from servers and clients, or remove it'),
      await file(
        TLS_FILES.cert,
        'server.pem',
        0o644,
        `certificate of the server, for ${names.join(', ')}, ${DAYS} days`,
      ),
      await file(TLS_FILES.key, 'server.key', 0o600, 'its key'),
    ];
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    const why = isMissing
      ? 'there is no openssl program: install it'
      : `openssl failed (${errorText(error)}): repair it`;
    throw new UsageError(`--tls trial: ${why}, or leave --tls out and name certificates in policysync.yaml`);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
