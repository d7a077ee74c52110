/** A text as one word for bash and zsh. */
export function posixWord(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** A text as one word for fish. */
export function fishWord(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
