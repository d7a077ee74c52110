import { createHash, createPublicKey, createSecretKey, type KeyObject } from 'node:crypto';
import * as z from 'zod';
import { type BundleAlgorithm, type JwtAlgorithm, whyUnfit } from '../../../auth/algorithms.js';
import { SyncError } from '../../../lib/errors.js';
import { MANY_JSON_VALUES, parseJson } from '../../../lib/json/json.js';
import { JsonCheck } from '../../../lib/json/json-check.js';
import { jsonOrUndefined } from '../../../lib/json/json-text.js';
import { KeyProblem, readPem } from '../../../lib/net/pem-text.js';
import type { Secret } from '../../../lib/observe/log.js';
import { inSteps } from '../../../lib/run/async.js';
import { signedJson } from './signed-json.js';

/** The signature of a bundle, at its root. It is no part of what is served. */
export const SIGNATURES_FILE = '.signatures.json';
/** Maximum bytes of it: some 200 for each file. */
export const SIGNATURES_LIMIT_BYTES = 16 * 1024 * 1024;

/** Settings of the verification. */
export interface BundleKeySettings {
  readonly policyBundleVerificationKey?: Secret | undefined;
  readonly policyBundleVerificationAlgorithm: BundleAlgorithm;
  readonly policyBundleVerificationScope: string;
}

/** Verifies that a bundle is what was signed. */
export interface BundleVerification {
  /** Another text means another verdict: of key, algorithm and scope. */
  readonly identity: string;
  /**
   * Returns what was signed. Rejects with an `Error` that completes "the bundle archive is refused:
   * its signature".
   */
  open(signatures: Uint8Array): Promise<SignedFiles>;
}

/** The files of a bundle that were signed, with their hashes. */
export type SignedFiles = ReadonlyMap<string, SignedFile>;
type SignedFile = z.infer<typeof signedFile>;

/** What OPA writes is SHA-256; MD5 and SHA-1 prove nothing. */
const HASHES = { 'SHA-256': 'sha256', 'SHA-384': 'sha384', 'SHA-512': 'sha512', 'SHA-512-256': 'sha512-256' } as const;

const signaturesFile = z.object({ signatures: z.array(z.string()).length(1, 'must be exactly one JWT') });
const signedFile = z.object({
  name: z.string(),
  hash: z.string(),
  algorithm: z.enum(Object.keys(HASHES) as (keyof typeof HASHES)[]),
});
const payload = z.object({ files: z.array(signedFile), scope: z.string().default('') });

/**
 * Returns the verification that the settings ask for; undefined: none. Throws `config_invalid` for
 * an unusable key.
 */
export function bundleVerification(settings: BundleKeySettings): BundleVerification | undefined {
  const given = settings.policyBundleVerificationKey?.reveal();
  if (given === undefined) return undefined;
  const { policyBundleVerificationAlgorithm: algorithm, policyBundleVerificationScope: scope } = settings;
  const key = verificationKey(given, algorithm);
  return {
    identity: createHash('sha256')
      .update(JSON.stringify([given.trim(), algorithm, scope]))
      .digest('hex'),
    open: async (signatures) => {
      const [jwt] = read(signaturesFile, signatures, 'cannot be read').signatures;
      const signed = read(payload, await verified(jwt ?? '', key, algorithm), 'has a payload that cannot be read');
      if (signed.scope !== scope) {
        throw new Error(
          `has the scope ${JSON.stringify(signed.scope)}, and SYNC_POLICY_BUNDLE_VERIFICATION_SCOPE is ${JSON.stringify(scope)}`,
        );
      }
      return new Map(signed.files.map((file) => [file.name.replace(/^\//, ''), file]));
    },
  };
}

async function verified(jwt: string, key: KeyObject, algorithm: BundleAlgorithm): Promise<Uint8Array> {
  const { compactVerify, errors } = await import('jose'); // loaded where bundles are signed
  try {
    return (await compactVerify(jwt, key, { algorithms: [algorithm] })).payload;
  } catch (cause) {
    if (cause instanceof errors.JOSEAlgNotAllowed) {
      throw new Error(`is not of ${algorithm}, which SYNC_POLICY_BUNDLE_VERIFICATION_ALGORITHM asks for`, { cause });
    }
    if (cause instanceof errors.JOSEError) {
      throw new Error('was not made with the key of SYNC_POLICY_BUNDLE_VERIFICATION_KEY', { cause });
    }
    throw cause;
  }
}

function read<S extends z.ZodType>(schema: S, bytes: Uint8Array, problem: string): z.infer<S> {
  try {
    return schema.parse(parseJson(new TextDecoder('utf-8', { fatal: true }).decode(bytes)));
  } catch (cause) {
    throw new Error(problem, { cause });
  }
}

/**
 * Reads the key: for HS* a secret, otherwise PEM of a public key or a certificate. Never shows it.
 */
function verificationKey(text: string, algorithm: BundleAlgorithm): KeyObject {
  if (algorithm.startsWith('HS')) return createSecretKey(Buffer.from(text, 'utf8'));
  const setting = 'SYNC_POLICY_BUNDLE_VERIFICATION_KEY';
  let key: KeyObject;
  try {
    const pem = readPem(text);
    if (pem === undefined) throw new KeyProblem('is no PEM of a public key or certificate');
    // Node would silently take its public half.
    if (pem.labels.some((label) => label.includes('PRIVATE'))) {
      throw new KeyProblem('is a private key: only its public half belongs here');
    }
    key = createPublicKey(pem.text);
  } catch (cause) {
    const why = cause instanceof KeyProblem ? cause.message : 'cannot be read as a key';
    throw new SyncError('config_invalid', `${setting} ${why}`);
  }
  const unfit = whyUnfit(key, algorithm as JwtAlgorithm);
  if (unfit === undefined) return key;
  throw new SyncError(
    'config_invalid',
    `${setting} does not fit SYNC_POLICY_BUNDLE_VERIFICATION_ALGORITHM: it ${unfit}`,
  );
}

/** The names of files that OPA hashes by their value, not by their bytes. */
const STRUCTURED = /(?:^|\/)(?:data\.json|\.manifest)$/;
const YAML_DATA = /(?:^|\/)data\.ya?ml$/;
/** Largest YAML that is read: its reader takes a second for each few megabytes, in one step. */
const YAML_LIMIT_BYTES = 256 * 1024;
const YAML_REMEDY = 'make it data.json, as `opa build` does';

/**
 * Reads a content to its end. Throws an `Error` that completes a sentence beginning with the file
 * if it is not what was signed.
 */
export async function checkSigned(
  path: string,
  signed: SignedFile | undefined,
  content: AsyncIterable<Uint8Array>,
): Promise<void> {
  if (signed === undefined) throw new Error('was not signed');
  const hash = createHash(HASHES[signed.algorithm]);
  const isYaml = YAML_DATA.test(path);
  if (isYaml) hash.update(await canonicalYaml(content));
  else if (STRUCTURED.test(path)) hash.update(await canonical(content));
  else for await (const chunk of content) hash.update(chunk);
  if (hash.digest('hex') === signed.hash.toLowerCase()) return;
  throw new Error(`is not what was signed${isYaml ? `, or YAML that OPA reads otherwise: ${YAML_REMEDY}` : ''}`);
}

/**
 * OPA signs YAML over its value as JSON. Clients get none of it: what is read otherwise than by OPA
 * is refused, and never let through.
 */
async function canonicalYaml(content: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of content) {
    size += chunk.length;
    if (size > YAML_LIMIT_BYTES)
      throw new Error(`is YAML of more than ${YAML_LIMIT_BYTES} bytes, which is not verified: ${YAML_REMEDY}`);
    chunks.push(chunk);
  }
  const { YamlDocument, YamlProblem } = await import('../../../lib/json/yaml-document.js');
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks));
    const document = new YamlDocument(text);
    // Numbers as Go prints what it reads, which for all but long integers is as JavaScript does.
    const json = jsonOrUndefined(text) === undefined ? JSON.stringify(parseJson(document.json(document.root()))) : text;
    return await inSteps(signedJson(json));
  } catch (cause) {
    if (!(cause instanceof YamlProblem || cause instanceof TypeError)) throw cause;
    throw new Error(`is YAML that is not verified (${cause.message}): ${YAML_REMEDY}`, { cause });
  }
}

async function canonical(content: AsyncIterable<Uint8Array>): Promise<string> {
  const check = new JsonCheck({ maxValues: MANY_JSON_VALUES });
  const chunks: Uint8Array[] = [];
  try {
    for await (const chunk of content) {
      check.push(chunk);
      chunks.push(chunk);
    }
    check.end();
  } catch (cause) {
    if (cause instanceof SyntaxError) throw new Error(`is not valid JSON: ${cause.message}`, { cause });
    throw cause;
  }
  return await inSteps(signedJson(Buffer.concat(chunks).toString('utf8')));
}
