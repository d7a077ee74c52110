/** A text as one word of a POSIX shell, quoted whatever it is. */
export function quotedWord(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** The same for people: quoted only where a shell would read it in another way. */
export function shellWord(text: string): string {
  return /^[\w./@~-]+$/.test(text) ? text : quotedWord(text);
}
