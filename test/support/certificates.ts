import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { tempDir } from './temp-dir.js';

const exec = promisify(execFile);

/** A certificate and its key, as files. */
export interface Pair {
  readonly cert: string;
  readonly key: string;
}

/** A certificate authority of a test, made with the `openssl` program. `await using` removes its files. */
export interface TestAuthority extends AsyncDisposable {
  /** Its certificate. */
  readonly file: string;
  readonly dir: string;
  /** Signs a certificate for `localhost`, `server.test`, `secure.test` and 127.0.0.1, good for servers and for clients. */
  issue(name: string): Promise<Pair>;
}

/** Makes an authority; `name` shows in its certificates. */
export async function makeAuthority(name: string): Promise<TestAuthority> {
  const dir = await tempDir();
  const at = (file: string): string => join(dir.path, file);
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  const openssl = (...args: string[]): Promise<unknown> => exec('openssl', args);
  await openssl(
    ...['req', '-x509', ...newKey, '-days', '2', '-subj', `/CN=${name}`],
    ...['-addext', 'keyUsage=critical,keyCertSign,cRLSign'],
    ...['-keyout', at('ca.key'), '-out', at('ca.pem')],
  );
  return {
    file: at('ca.pem'),
    dir: dir.path,
    issue: async (subject) => {
      const pair = { cert: at(`${subject}.pem`), key: at(`${subject}.key`) };
      const extensions = at(`${subject}.ext`);
      const names = 'DNS:localhost,DNS:server.test,DNS:secure.test,IP:127.0.0.1';
      await writeFile(extensions, `subjectAltName=${names}\nextendedKeyUsage=serverAuth,clientAuth\n`);
      await openssl('req', ...newKey, '-subj', `/CN=${subject}`, '-keyout', pair.key, '-out', at(`${subject}.csr`));
      await openssl(
        ...['x509', '-req', '-in', at(`${subject}.csr`), '-days', '2', '-extfile', extensions],
        ...['-CA', at('ca.pem'), '-CAkey', at('ca.key'), '-CAcreateserial', '-out', pair.cert],
      );
      return pair;
    },
    [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose](),
  };
}
