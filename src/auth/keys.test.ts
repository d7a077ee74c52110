import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createCipheriv, createHash, createPublicKey, generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { SyncError } from '../lib/errors.js';
import { Secret } from '../lib/observe/log.js';
import type { JwtAlgorithm } from './algorithms.js';
import { readKeyMaterial } from './key-text.js';
import { loadPrivateKey, loadPublicKey } from './keys.js';

/** Keys that the usual tools make, in all forms of opal-protocol P3.1. */

const DIR = mkdtempSync(join(tmpdir(), 'sync-keys-'));
after(() => rmSync(DIR, { recursive: true, force: true }));
const PASSPHRASE = 'open sesame';

/** Makes a key with ssh-keygen in the OpenSSH container; gives the path of the private one. */
function sshKey(name: string, type: string, bits: number | undefined, passphrase = '', ...more: string[]): string {
  const file = join(DIR, name);
  const size = bits === undefined ? [] : ['-b', String(bits)];
  execFileSync('ssh-keygen', ['-q', '-t', type, ...size, '-N', passphrase, '-C', 'a_comment', ...more, '-f', file]);
  return file;
}

/** Writes what openssl makes of a file to another; gives its path. */
function openssl(name: string, ...args: string[]): string {
  const file = join(DIR, name);
  execFileSync('openssl', [...args, '-out', file], { stdio: 'ignore' });
  return file;
}

function text(file: string): string {
  return readFileSync(file, 'utf8');
}

function oneLine(file: string): string {
  return text(file).trim().replaceAll('\n', '_');
}

const RSA = sshKey('rsa', 'rsa', 2048);
const RSA_PASS = sshKey('rsa-pass', 'rsa', 2048, PASSPHRASE);
const EC256 = sshKey('ec256', 'ecdsa', 256);
const EC384 = sshKey('ec384', 'ecdsa', 384);
const EC521 = sshKey('ec521', 'ecdsa', 521);
const ED = sshKey('ed', 'ed25519', undefined);
const ED_PASS = sshKey('ed-pass', 'ed25519', undefined, PASSPHRASE, '-a', '2'); // fewer rounds than usual, which are slow
const PKCS8 = openssl('pkcs8.pem', 'genpkey', '-algorithm', 'RSA', '-pkeyopt', 'rsa_keygen_bits:2048');
const PKCS1 = openssl('pkcs1.pem', 'rsa', '-traditional', '-in', PKCS8);
const PKCS8_PASS = openssl('pkcs8-pass.pem', 'pkcs8', '-topk8', '-in', PKCS8, '-passout', `pass:${PASSPHRASE}`);
const PKCS1_PASS = openssl(
  ...(['pkcs1-pass.pem', 'rsa', '-traditional', '-aes256', '-in', PKCS8, '-passout', `pass:${PASSPHRASE}`] as const),
);
const PKCS8_DER = openssl('pkcs8.der', 'pkcs8', '-topk8', '-nocrypt', '-in', PKCS8, '-outform', 'DER');
const PKCS1_DER = openssl('pkcs1.der', 'rsa', '-traditional', '-in', PKCS8, '-outform', 'DER');
const SEC1 = openssl('sec1.pem', 'ecparam', '-name', 'prime256v1', '-genkey');
const SPKI = openssl('spki.pem', 'rsa', '-in', PKCS8, '-pubout');
const SPKI_DER = openssl('spki.der', 'rsa', '-in', PKCS8, '-pubout', '-outform', 'DER');
const RSA_PUBLIC = openssl('rsa-public.pem', 'rsa', '-in', PKCS8, '-RSAPublicKey_out');

const PRIVATE: { form: string; value: string; algorithm: JwtAlgorithm; passphrase?: string }[] = [
  { form: 'PKCS#8 PEM text', value: text(PKCS8), algorithm: 'RS256' },
  { form: 'PKCS#8 PEM with underscores', value: oneLine(PKCS8), algorithm: 'PS512' },
  { form: 'PKCS#8 PEM file', value: PKCS8, algorithm: 'RS512' },
  { form: 'PKCS#1 PEM text', value: text(PKCS1), algorithm: 'RS256' },
  { form: 'encrypted PKCS#8', value: text(PKCS8_PASS), algorithm: 'RS256', passphrase: PASSPHRASE },
  { form: 'encrypted PKCS#8 with underscores', value: oneLine(PKCS8_PASS), algorithm: 'RS256', passphrase: PASSPHRASE },
  { form: 'encrypted PKCS#1', value: text(PKCS1_PASS), algorithm: 'RS256', passphrase: PASSPHRASE },
  { form: 'encrypted PKCS#1 with underscores', value: oneLine(PKCS1_PASS), algorithm: 'RS256', passphrase: PASSPHRASE },
  { form: 'PEM with Windows line breaks', value: text(PKCS8).replaceAll('\n', '\r\n'), algorithm: 'RS256' },
  { form: 'PEM with \\n as two characters', value: text(PKCS1).replaceAll('\n', '\\n'), algorithm: 'RS256' },
  { form: 'PEM in one line', value: text(PKCS8).replaceAll('\n', ' '), algorithm: 'RS256' },
  { form: 'PEM as base64', value: Buffer.from(text(PKCS8)).toString('base64'), algorithm: 'RS256' },
  { form: 'PKCS#8 DER file', value: PKCS8_DER, algorithm: 'RS256' },
  { form: 'PKCS#1 DER file', value: PKCS1_DER, algorithm: 'RS256' },
  { form: 'DER as base64', value: readFileSync(PKCS8_DER).toString('base64'), algorithm: 'RS256' },
  { form: 'SEC 1 PEM behind its parameters', value: text(SEC1), algorithm: 'ES256' },
  { form: 'OpenSSH container, RSA', value: text(RSA), algorithm: 'RS256' },
  { form: 'OpenSSH container, RSA, with underscores', value: oneLine(RSA), algorithm: 'RS256' },
  { form: 'OpenSSH container, encrypted RSA', value: RSA_PASS, algorithm: 'RS256', passphrase: PASSPHRASE },
  { form: 'OpenSSH container, P-256', value: EC256, algorithm: 'ES256' },
  { form: 'OpenSSH container, P-384', value: EC384, algorithm: 'ES384' },
  { form: 'OpenSSH container, P-521', value: EC521, algorithm: 'ES512' },
  { form: 'OpenSSH container, Ed25519', value: ED, algorithm: 'EdDSA' },
  { form: 'OpenSSH container, encrypted Ed25519', value: ED_PASS, algorithm: 'EdDSA', passphrase: PASSPHRASE },
];
for (const { form, value, algorithm, passphrase } of PRIVATE) {
  test(`private key: ${form}`, async () => {
    const key = await loadPrivateKey(
      new Secret(value),
      passphrase === undefined ? undefined : new Secret(passphrase),
      algorithm,
    );
    assert.equal(key.type, 'private');
  });
}

/**
 * A public key in some form, and a private key file of the same pair in a form that Node reads, or
 * its SSH line.
 */
const PUBLIC: { form: string; value: string; algorithm: JwtAlgorithm; pairOf: string }[] = [
  { form: 'ssh-rsa line', value: text(`${RSA}.pub`), algorithm: 'RS256', pairOf: RSA },
  {
    form: 'ssh-rsa line without comment',
    value: text(`${RSA}.pub`).split(' ', 2).join(' '),
    algorithm: 'RS256',
    pairOf: RSA,
  },
  { form: 'ssh-rsa line, as a file', value: `${RSA}.pub`, algorithm: 'PS256', pairOf: RSA },
  { form: 'ecdsa line P-256', value: text(`${EC256}.pub`), algorithm: 'ES256', pairOf: EC256 },
  { form: 'ecdsa line P-384', value: text(`${EC384}.pub`), algorithm: 'ES384', pairOf: EC384 },
  { form: 'ecdsa line P-521', value: text(`${EC521}.pub`), algorithm: 'ES512', pairOf: EC521 },
  { form: 'ssh-ed25519 line', value: text(`${ED}.pub`), algorithm: 'EdDSA', pairOf: ED },
  { form: 'SPKI PEM text', value: text(SPKI), algorithm: 'RS256', pairOf: PKCS8 },
  { form: 'SPKI PEM with underscores', value: oneLine(SPKI), algorithm: 'RS256', pairOf: PKCS8 },
  { form: 'SPKI PEM file', value: SPKI, algorithm: 'RS256', pairOf: PKCS8 },
  { form: 'PKCS#1 PEM', value: text(RSA_PUBLIC), algorithm: 'RS256', pairOf: PKCS8 },
  { form: 'SPKI DER file', value: SPKI_DER, algorithm: 'RS256', pairOf: PKCS8 },
];
for (const { form, value, algorithm, pairOf } of PUBLIC) {
  test(`public key: ${form}`, async () => {
    const key = await loadPublicKey(value, algorithm);
    const privateKey = await loadPrivateKey(new Secret(pairOf), undefined, algorithm);
    assert.ok(createPublicKey(privateKey).equals(key), 'it is the key of this pair');
  });
}

const SMALL = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({ type: 'spki', format: 'pem' });
const PSS = generateKeyPairSync('rsa-pss', { modulusLength: 2048 }).publicKey.export({ type: 'spki', format: 'pem' });
const LINE = text(`${RSA}.pub`);

/**
 * What looks like a key to the one passphrase of some hundreds that is wrong and gives a right
 * padding.
 */
function encryptedNonsense(passphrase: string): string {
  const iv = Buffer.alloc(16, 7);
  const digest = (before: Buffer): Buffer =>
    createHash('md5').update(before).update(passphrase).update(iv.subarray(0, 8)).digest();
  const first = digest(Buffer.alloc(0));
  const cipher = createCipheriv('aes-256-cbc', Buffer.concat([first, digest(first)]), iv);
  const body = Buffer.concat([cipher.update('nonsense'.repeat(100)), cipher.final()]).toString('base64');
  return `-----BEGIN RSA PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-256-CBC,${iv.toString('hex').toUpperCase()}

${body.replaceAll(/.{64}/g, '$&\n')}
-----END RSA PRIVATE KEY-----
`;
}

const REFUSED: { name: string; load: () => Promise<unknown>; message: RegExp }[] = [
  {
    name: 'nonsense',
    load: () => loadPublicKey('nonsense', 'RS256'),
    message: /PUBLIC_KEY is neither the text of a key nor/,
  },
  { name: 'a folder', load: () => loadPublicKey(DIR, 'RS256'), message: /something that is not a file/ },
  { name: 'a file with nonsense', load: () => nonsenseFile(), message: /PUBLIC_KEY cannot be read as a key/ },
  {
    name: 'broken PEM',
    load: () => loadPublicKey(text(SPKI).replace(/MII/, 'AAA'), 'RS256'),
    message: /cannot be read as a key/,
  },
  {
    name: 'a private key as the public one',
    load: () => loadPublicKey(text(PKCS8), 'RS256'),
    message: /is a private key/,
  },
  { name: 'a public key as the private one', load: () => privateOf(SPKI), message: /has no private key in it/ },
  { name: 'a line that is cut off', load: () => loadPublicKey(LINE.slice(0, 200), 'RS256'), message: /cut off|base64/ },
  {
    name: 'a line with another type',
    load: () => loadPublicKey(LINE.replace('ssh-rsa', 'ssh-ed25519'), 'EdDSA'),
    message: /whose type is not that/,
  },
  {
    name: 'a line of a hardware key',
    load: () => loadPublicKey('sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29t', 'EdDSA'),
    message: /is an SSH key of type sk-/,
  },
  {
    name: 'no passphrase',
    load: () => privateOf(PKCS8_PASS),
    message: /is encrypted: set SYNC_AUTH_PRIVATE_KEY_PASSPHRASE/,
  },
  { name: 'no passphrase for PKCS#1', load: () => privateOf(PKCS1_PASS), message: /is encrypted/ },
  { name: 'no passphrase for OpenSSH', load: () => privateOf(ED_PASS, 'EdDSA'), message: /is encrypted/ },
  { name: 'a wrong passphrase', load: () => privateOf(PKCS8_PASS, 'RS256', 'no'), message: /PASSPHRASE is wrong/ },
  {
    name: 'a wrong passphrase that decrypts to nonsense',
    load: () => privateOf(encryptedNonsense('no'), 'RS256', 'no'),
    message: /PASSPHRASE is wrong/,
  },
  {
    name: 'a wrong passphrase for OpenSSH',
    load: () => privateOf(ED_PASS, 'EdDSA', 'no'),
    message: /PASSPHRASE is wrong/,
  },
  {
    name: 'RSA for ES256',
    load: () => loadPublicKey(SPKI, 'ES256'),
    message: /does not fit SYNC_AUTH_JWT_ALGORITHM: it is of type rsa, ES256 needs ec/,
  },
  {
    name: 'P-256 for ES384',
    load: () => loadPublicKey(`${EC256}.pub`, 'ES384'),
    message: /is on the curve prime256v1, ES384 needs P-384/,
  },
  { name: 'EC for RS256', load: () => privateOf(EC256), message: /is of type ec, RS256 needs rsa/ },
  { name: 'RSA for EdDSA', load: () => loadPublicKey(SPKI, 'EdDSA'), message: /EdDSA needs ed25519/ },
  {
    name: 'a short RSA key',
    load: () => loadPublicKey(String(SMALL), 'RS256'),
    message: /has 1024 bits, RS256 needs at least 2048/,
  },
  { name: 'an RSA-PSS key', load: () => loadPublicKey(String(PSS), 'PS256'), message: /is of type rsa-pss/ },
];
for (const { name, load, message } of REFUSED) {
  test(`refused at the start: ${name}`, async () => {
    const error = await load().catch((reason: unknown) => reason);
    assert.ok(error instanceof SyncError, `${error}`);
    assert.equal(error.code, 'config_invalid');
    assert.match(error.message, message);
    assert.equal(error.cause, undefined, 'a cause might quote the key');
  });
}

test('~/ is the home folder, and an error never shows the value', async () => {
  writeFileSync(join(DIR, 'home.pem'), text(SPKI));
  assert.deepEqual(await readKeyMaterial('~/home.pem', DIR), { text: text(SPKI) });
  await assert.rejects(readKeyMaterial(`hush${'x'.repeat(5000)}`), (error: Error) => !error.message.includes('hush'));
});

function privateOf(file: string, algorithm: JwtAlgorithm = 'RS256', passphrase?: string): Promise<unknown> {
  return loadPrivateKey(new Secret(file), passphrase === undefined ? undefined : new Secret(passphrase), algorithm);
}

function nonsenseFile(): Promise<unknown> {
  const file = join(DIR, 'nonsense');
  writeFileSync(file, 'nonsense');
  return loadPublicKey(file, 'RS256');
}
