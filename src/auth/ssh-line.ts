import { createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto';
import { KeyProblem } from '../lib/net/pem-text.js';

/**
 * Names of the curves in SSH and in a JWK (RFC 5656, RFC 7518), and the length of one coordinate.
 */
const CURVES: Readonly<Record<string, { crv: string; bytes: number }>> = {
  nistp256: { crv: 'P-256', bytes: 32 },
  nistp384: { crv: 'P-384', bytes: 48 },
  nistp521: { crv: 'P-521', bytes: 66 },
};

/** True for what is meant as a public key line of SSH: `ssh-rsa AAAA... comment`. */
export function isSshLine(text: string): boolean {
  return /^(ssh|ecdsa|sk)-[\w.@-]+ /.test(text.trim());
}

/**
 * The key of an SSH public key line: ssh-rsa, ssh-ed25519, ecdsa-sha2-nistp256/384/521 (RFC 4253
 * section 6.6, RFC 5656, RFC 8709). Throws a {@link KeyProblem}.
 */
export function parseSshLine(text: string): KeyObject {
  const [type = '', base64 = ''] = text.trim().split(/\s+/, 2);
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) throw new KeyProblem('is an SSH line whose second word is not base64');
  const fields = sshFields(Buffer.from(base64, 'base64'));
  if (fields[0]?.toString('latin1') !== type) throw new KeyProblem('is an SSH line whose type is not that of its key');
  return createPublicKey({ key: sshJwk(type, fields.slice(1)), format: 'jwk' });
}

function sshJwk(type: string, fields: readonly Buffer[]): JsonWebKey {
  const [first, second] = fields;
  if (type === 'ssh-rsa' && fields.length === 2 && first && second) {
    return { kty: 'RSA', e: unsigned(first), n: unsigned(second) };
  }
  if (type === 'ssh-ed25519' && fields.length === 1 && first) {
    return { kty: 'OKP', crv: 'Ed25519', x: first.toString('base64url') };
  }
  const curve = CURVES[type.replace('ecdsa-sha2-', '')];
  if (curve !== undefined && fields.length === 2 && second?.[0] === 4 && second.length === 1 + 2 * curve.bytes) {
    const [x, y] = [second.subarray(1, 1 + curve.bytes), second.subarray(1 + curve.bytes)];
    return { kty: 'EC', crv: curve.crv, x: x.toString('base64url'), y: y.toString('base64url') };
  }
  throw new KeyProblem(`is an SSH key of type ${type}: ssh-rsa, ssh-ed25519 and ecdsa-sha2-nistp* can be used`);
}

/** Strings with their length in front (RFC 4251 section 5), all of them. */
function sshFields(blob: Buffer): Buffer[] {
  const fields: Buffer[] = [];
  let at = 0;
  while (at < blob.length) {
    const end = at + 4 <= blob.length ? at + 4 + blob.readUInt32BE(at) : Number.POSITIVE_INFINITY;
    if (end > blob.length) throw new KeyProblem('is an SSH line that is cut off');
    fields.push(blob.subarray(at + 4, end));
    at = end;
  }
  return fields;
}

/** A number without the zero byte that keeps it positive. */
function unsigned(number: Buffer): string {
  return number.subarray(number[0] === 0 ? 1 : 0).toString('base64url');
}
