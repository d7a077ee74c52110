/**
 * What is wrong with a key, as the end of a sentence that begins with the name of its setting.
 * Never shows the key.
 */
export class KeyProblem extends Error {}

/** No key is longer. */
const MAX_CHARACTERS = 64 * 1024;
/** Characters in a line of what is wrapped anew. */
const LINE = 64;
const BEGIN = '-----BEGIN ';
const DASHES = '-----';
/** How the content of OpenSSH's container begins. */
const OPENSSH_MAGIC = 'openssh-key-v1\0';
const OPENSSH_LABEL = 'OPENSSH PRIVATE KEY';

/** PEM in its usual form. */
export interface Pem {
  /** All blocks, each line ended by a newline. */
  readonly text: string;
  /** What each block is: `RSA PRIVATE KEY`. */
  readonly labels: readonly string[];
}

/**
 * Reads PEM, and repairs what happens to it on its way through variables, YAML and other systems:
 * Windows line breaks, `\n` as two characters, underscores (opal-protocol P5.1), blanks or nothing
 * in place of newlines, quotes around it, base64 around it, an OpenSSH key without its first and
 * last line. Undefined: it is not meant as PEM. Throws a {@link KeyProblem}. Pure.
 */
export function readPem(given: string): Pem | undefined {
  if (given.length > MAX_CHARACTERS) return undefined;
  const text = unpacked(unquoted(given.trim()));
  const blocks: string[] = [];
  const labels: string[] = [];
  for (let at = text.indexOf(BEGIN); at !== -1; at = text.indexOf(BEGIN, at)) {
    const start = at + BEGIN.length;
    const close = text.indexOf(DASHES, start);
    const label = text.slice(start, close);
    if (close === -1 || !/^[A-Z0-9 ]{1,40}$/.test(label)) throw new KeyProblem('has a first line that is not whole');
    const last = `-----END ${label}-----`;
    const end = text.indexOf(last, close);
    if (end === -1) throw new KeyProblem(`is cut off: it has no last line ${last}`);
    blocks.push(`${BEGIN}${label}-----\n${content(text.slice(close + DASHES.length, end))}${last}\n`);
    labels.push(label);
    at = end + last.length;
  }
  return blocks.length === 0 ? undefined : { text: blocks.join(''), labels };
}

function unquoted(text: string): string {
  const quote = text[0];
  const isQuoted = text.length > 1 && (quote === '"' || quote === "'") && text.endsWith(quote);
  return isQuoted ? text.slice(1, -1).trim() : text;
}

/** What base64 has inside, if that is PEM or the content of an OpenSSH key. */
function unpacked(text: string): string {
  if (!isBase64(text.replaceAll(/\s/g, ''))) return text;
  const inside = Buffer.from(text, 'base64').toString('latin1');
  if (inside.trimStart().startsWith(BEGIN)) return inside.trim();
  return inside.startsWith(OPENSSH_MAGIC) ? `${BEGIN}${OPENSSH_LABEL}-----${text}-----END ${OPENSSH_LABEL}-----` : text;
}

function isBase64(text: string): boolean {
  return /^[A-Za-z0-9+/]+={0,2}$/.test(text);
}

/** The lines between the first and the last one: headers of an encrypted key, and base64. */
function content(inner: string): string {
  const lined = inner.replaceAll(/\\r\\n|\\n|\\r|\r\n|\r/g, '\n').replaceAll('_', '\n');
  const lines = lined.split('\n').flatMap((line) => line.trim() || []);
  const body = lines.findIndex((line) => !line.includes(':'));
  if (body === -1) {
    const isOneLine = lines.length > 0;
    throw new KeyProblem(
      isOneLine ? 'is encrypted: give it with its line breaks' : 'has nothing between its first and its last line',
    );
  }
  const [headers, base64] = [lines.slice(0, body), lines.slice(body).flatMap((line) => line.split(/\s+/))];
  if (!isBase64(base64.join(''))) throw new KeyProblem('has something other than base64 inside');
  // Its own lines are kept, unless they are longer than some readers take.
  const wrapped = base64.every((line) => line.length <= 76) ? base64 : wrap(base64.join(''));
  return [...headers, ...(headers.length === 0 ? [] : ['']), ...wrapped, ''].join('\n');
}

function wrap(text: string): string[] {
  return Array.from({ length: Math.ceil(text.length / LINE) }, (_, index) =>
    text.slice(index * LINE, (index + 1) * LINE),
  );
}
