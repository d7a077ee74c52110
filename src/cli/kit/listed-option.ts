import { UsageError } from './run-program.js';

/**
 * Reads an option that lists words: separated by commas, as in settings, and it may be repeated. A
 * text without a word is refused: a list that is empty by mistake would mean nothing, or
 * everything.
 */
export function listedBy(option: string): (text: string, before?: readonly string[]) => string[] {
  return (text, before = []) => {
    const words = text
      .split(',')
      .map((word) => word.trim())
      .filter((word) => word !== '');
    if (words.length === 0) throw new UsageError(`${option} has an empty value: give one, or leave it out`);
    return [...before, ...words];
  };
}
