import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { SyncError } from '../lib/errors.js';
import { KeyProblem } from '../lib/net/pem-text.js';
import type { Secret } from '../lib/observe/log.js';
import { type JwtAlgorithm, whyUnfit } from './algorithms.js';
import { readKeyMaterial } from './key-text.js';
import { isSshLine, parseSshLine } from './ssh-line.js';

/**
 * Forms that the format settings name (opal-protocol P3.1). The real form is detected; the setting
 * is a hint.
 */
export const KEY_FORMATS = ['pem', 'ssh', 'der'] as const;

/**
 * The public key of SYNC_AUTH_PUBLIC_KEY: PEM (SPKI, PKCS#1), an SSH line, or DER; text or file.
 * Throws `config_invalid` when it cannot be used with the algorithm.
 */
export function loadPublicKey(value: string, algorithm: JwtAlgorithm): Promise<KeyObject> {
  return load('SYNC_AUTH_PUBLIC_KEY', algorithm, async () => {
    const material = await readKeyMaterial(value);
    if ('der' in material) {
      return firstThatWorks([
        () => createPublicKey({ key: material.der, format: 'der', type: 'spki' }),
        () => createPublicKey({ key: material.der, format: 'der', type: 'pkcs1' }),
      ]);
    }
    // Node would silently take its public half, and a private key would be on every client.
    if (material.text.includes('PRIVATE KEY'))
      throw new KeyProblem('is a private key: only its public half belongs there');
    return isSshLine(material.text) ? parseSshLine(material.text) : createPublicKey(material.text);
  });
}

/**
 * The private key of SYNC_AUTH_PRIVATE_KEY: PEM (PKCS#8, PKCS#1, SEC 1; each may be encrypted), the
 * OpenSSH container, or DER; text or file. Throws `config_invalid` when it cannot be used with the
 * algorithm.
 */
export function loadPrivateKey(
  value: Secret,
  passphrase: Secret | undefined,
  algorithm: JwtAlgorithm,
): Promise<KeyObject> {
  return load('SYNC_AUTH_PRIVATE_KEY', algorithm, async () => {
    const material = await readKeyMaterial(value.reveal());
    const secret = passphrase === undefined ? {} : { passphrase: passphrase.reveal() };
    if ('der' in material) {
      const key = material.der;
      return firstThatWorks(
        (['pkcs8', 'pkcs1', 'sec1'] as const).map(
          (type) => () => createPrivateKey({ key, format: 'der', type, ...secret }),
        ),
      );
    }
    const block = /-----BEGIN ([A-Z ]*)PRIVATE KEY-----[^-]*(?:-[^-]+)*-----END \1PRIVATE KEY-----/.exec(material.text);
    if (block === null) throw new KeyProblem('has no private key in it');
    return block[1] === 'OPENSSH ' ? openSshKey(block[0], passphrase) : pemKey(block[0], passphrase);
  });
}

function pemKey(key: string, passphrase: Secret | undefined): KeyObject {
  if (passphrase === undefined) return createPrivateKey(key);
  try {
    return createPrivateKey({ key, passphrase: passphrase.reveal() });
  } catch (cause) {
    // One wrong passphrase in some hundreds decrypts a key to something that is none: the padding
    // is right by chance.
    const isNoKey = cause instanceof Error && (cause as NodeJS.ErrnoException).code === 'ERR_OSSL_UNSUPPORTED';
    throw isNoKey && key.includes('ENCRYPTED') ? new KeyProblem(WRONG_PASSPHRASE) : cause;
  }
}

/** The key of an OpenSSH container, which Node cannot read (docs/internals/dependencies.md). */
async function openSshKey(text: string, passphrase: Secret | undefined): Promise<KeyObject> {
  const { default: sshpk } = await import('sshpk');
  const options = passphrase === undefined ? {} : { passphrase: passphrase.reveal() };
  const key = sshpk.parsePrivateKey(text, 'ssh', options);
  if (key.type !== 'ed25519') return createPrivateKey(key.toString('pkcs8'));
  // The PKCS#8 that sshpk writes for this type is not one that OpenSSL reads.
  const part = (name: string): string => {
    const data = key.parts.find((candidate) => candidate.name === name)?.data ?? Buffer.alloc(0);
    return Buffer.concat([Buffer.alloc(32), data])
      .subarray(-32)
      .toString('base64url');
  };
  return createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', d: part('k'), x: part('A') }, format: 'jwk' });
}

/** Turns everything that is wrong with a key into one sentence, without any part of the key. */
async function load(env: string, algorithm: JwtAlgorithm, read: () => Promise<KeyObject>): Promise<KeyObject> {
  let key: KeyObject;
  try {
    key = await read();
  } catch (cause) {
    throw new SyncError('config_invalid', `${env} ${reasonOf(cause)}`);
  }
  const unfit = whyUnfit(key, algorithm);
  if (unfit !== undefined)
    throw new SyncError('config_invalid', `${env} does not fit SYNC_AUTH_JWT_ALGORITHM: it ${unfit}`);
  return key;
}

/** The errors of OpenSSL and sshpk for a missing and for a wrong passphrase. */
const ENCRYPTED = /^ERR_MISSING_PASSPHRASE|^ERR_OSSL_CRYPTO_INTERRUPTED_OR_CANCELLED|^KeyEncryptedError/;
const UNDECRYPTABLE = /^ERR_OSSL_\w*(BAD_DECRYPT|BAD_PASSWORD|CIPHERFINAL)|^KeyParseError .*passphrase/;

const WRONG_PASSPHRASE = 'cannot be decrypted: SYNC_AUTH_PRIVATE_KEY_PASSPHRASE is wrong';

/**
 * What is wrong, for people. Libraries may quote their input, so only sentences of our own are
 * passed on.
 */
function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return 'cannot be read as a key';
  const { code } = cause as NodeJS.ErrnoException;
  const said = `${code ?? cause.name} ${cause.message}`;
  if (ENCRYPTED.test(said)) return 'is encrypted: set SYNC_AUTH_PRIVATE_KEY_PASSPHRASE';
  if (UNDECRYPTABLE.test(said)) return WRONG_PASSPHRASE;
  return cause instanceof KeyProblem ? cause.message : `cannot be read as a key (${code ?? cause.name})`;
}

/** The first result; the error of the last when all fail. */
function firstThatWorks(attempts: readonly (() => KeyObject)[]): KeyObject {
  let failure: unknown;
  for (const attempt of attempts) {
    try {
      return attempt();
    } catch (error) {
      failure = error; // thrown below when none works
    }
  }
  throw failure;
}
