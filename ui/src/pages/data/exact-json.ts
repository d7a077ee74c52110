/** A browser that reads and writes numbers as they were sent, however many digits they have. */
interface ExactJson {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context?: { readonly source?: string }) => unknown,
  ): unknown;
  rawJSON?(text: string): unknown;
}

const EXACT = JSON as ExactJson;

/**
 * Reads JSON so that JSON.stringify prints each number as it was sent; an older browser rounds
 * those with more than 15 digits.
 */
export function parseExact(text: string): unknown {
  return EXACT.parse(text, (_key, value, context) =>
    typeof value === 'number' && context?.source !== undefined && String(value) !== context.source
      ? (EXACT.rawJSON?.(context.source) ?? value)
      : value,
  );
}
