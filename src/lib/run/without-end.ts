/**
 * The text without these characters at its end. An expression such as `/x+$/` would look at each
 * run of them again and again.
 */
export function withoutEnd(text: string, characters: string): string {
  let end = text.length;
  while (end > 0 && characters.includes(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}
