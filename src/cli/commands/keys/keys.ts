import { generateKeyPair, randomBytes } from 'node:crypto';
import { rm, stat, writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { type Command, Option } from 'commander';
import { whyUnwritable } from '../../../lib/settings/file-problem.js';
import { expandHome } from '../../../lib/settings/home-path.js';
import { type CommandIo, printLine } from '../../kit/command-io.js';
import { UsageError } from '../../kit/run-program.js';

const BITS = ['2048', '3072', '4096'] as const;
/** Default file of a private key; the public one has `.pub` behind it. */
const KEY_FILE = 'sync-key';
/** Default size of a secret: 256 bits. */
const SECRET_BYTES = 32;

interface KeysOptions {
  out?: string;
  bits: (typeof BITS)[number];
  secret?: string | true;
  force?: boolean;
  json?: boolean;
}

/** The files of a pair of keys. */
export interface KeyFiles {
  readonly privateKeyFile: string;
  readonly publicKeyFile: string;
}

/** Adds `keys`: makes the keys that sign and verify tokens, or a random secret. */
export function addKeysCommand(program: Command, io: CommandIo): void {
  program
    .command('keys')
    .description('Make the pair of RSA keys that signs and verifies tokens, or a random secret.')
    .option('--out <file>', `file of the private key; the public one gets .pub behind it (default: ${KEY_FILE})`)
    .addOption(new Option('--bits <n>', 'size of the keys').choices(BITS).default('4096'))
    .option(
      '--secret [bytes]',
      `make a secret of so many random bytes and print it, or write it to --out (default: ${SECRET_BYTES})`,
    )
    .option('--force', 'replace files that are there: tokens of the old key are then no longer valid')
    .option('--json', 'print the names of the files, or the secret, as JSON')
    .action((options: KeysOptions) =>
      options.secret === undefined ? keys(options, io) : secret(options, options.secret, io),
    );
}

async function keys(
  { out = KEY_FILE, bits, force = false, json = false }: KeysOptions,
  { stdout }: CommandIo,
): Promise<void> {
  const file = expandHome(out);
  const files = { privateKeyFile: file, publicKeyFile: `${file}.pub` };
  await writeKeyPair(files, { bits: Number(bits), force });
  if (json) {
    const { privateKeyFile: private_key_file, publicKeyFile: public_key_file } = files;
    printLine(stdout, JSON.stringify({ private_key_file, public_key_file, algorithm: 'RS256', bits: Number(bits) }));
    return;
  }
  const width = files.publicKeyFile.length;
  printLine(
    stdout,
    `private key  ${files.privateKeyFile.padEnd(width)}  for the server alone: SYNC_AUTH_PRIVATE_KEY
public key   ${files.publicKeyFile}  for server and clients: SYNC_AUTH_PUBLIC_KEY`,
  );
}

async function secret(
  { out, force = false, json = false }: KeysOptions,
  size: string | true,
  { stdout }: CommandIo,
): Promise<void> {
  const bytes = size === true ? SECRET_BYTES : Number(size);
  if (!Number.isInteger(bytes) || bytes < 16 || bytes > 1024)
    throw new UsageError(`--secret must be a whole number of bytes from 16 to 1024 (is ${size})`);
  const text = randomBytes(bytes).toString('base64url');
  if (out === undefined) {
    printLine(stdout, json ? JSON.stringify({ secret: text }) : text);
    return;
  }
  const file = expandHome(out);
  await refuseExisting([file], force);
  await writeNew(file, `${text}\n`, 0o600);
  printLine(stdout, json ? JSON.stringify({ secret_file: file }) : `secret  ${file}`);
}

/**
 * Makes a pair of RSA keys and writes both as PEM; only the owner may read the private one. Throws
 * {@link UsageError} if a file is there already and not `force`, or cannot be written.
 */
export async function writeKeyPair(
  { privateKeyFile, publicKeyFile }: KeyFiles,
  { bits = 4096, force = false }: { readonly bits?: number; readonly force?: boolean } = {},
): Promise<void> {
  await refuseExisting([privateKeyFile, publicKeyFile], force);
  const { privateKey, publicKey } = await promisify(generateKeyPair)('rsa', {
    modulusLength: bits,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  await writeNew(privateKeyFile, privateKey, 0o600);
  await writeNew(publicKeyFile, publicKey, 0o644);
}

/** Removes the files with `force`; otherwise throws if one is there. */
async function refuseExisting(files: readonly string[], force: boolean): Promise<void> {
  for (const file of files) {
    if (await isFolder(file)) throw new UsageError(`${file} is a folder: --out takes the path of a file`);
    if (force)
      await attempt(file, () => rm(file, { force: true })); // the mode counts only for a new file
    else if (await isThere(file))
      throw new UsageError(`${file} is there already; --force replaces it, --out names another`);
  }
}

async function isFolder(file: string): Promise<boolean> {
  return stat(file).then(
    (found) => found.isDirectory(),
    () => false, // whoever writes it says what is wrong
  );
}

async function isThere(file: string): Promise<boolean> {
  return stat(file).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== 'ENOENT' && error.code !== 'ENOTDIR',
  );
}

/** Writes a file that must not exist yet. */
async function writeNew(file: string, text: string, mode: number): Promise<void> {
  await attempt(file, () => writeFile(file, text, { flag: 'wx', mode }));
}

async function attempt(file: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    throw new UsageError(`${file} cannot be written: ${whyUnwritable(error)}`);
  }
}
