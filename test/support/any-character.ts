import fc from 'fast-check';

/** Code points but surrogates, which no text has. What fails is shown with printable ones where those fail too: they come first. */
const RANGES: readonly (readonly [number, number])[] = [
  [0x20, 0x7e],
  [0, 0xd7ff],
  [0xe000, 0xffff],
  [0x10000, 0x10ffff],
];

/**
 * Any character: what `unit: 'binary'` of `fc.string` draws, which makes a table of all that there are first, for half a second. It
 * can be taken apart again, so texts that mean something to JavaScript (`__proto__`) are drawn, too.
 */
export const ANY_CHARACTER: fc.Arbitrary<string> = fc.oneof(
  { withCrossShrink: true },
  ...RANGES.map(([min, max]) => fc.integer({ min, max }).map((point) => String.fromCodePoint(point), codePointOf)),
);

function codePointOf(text: unknown): number {
  const point = typeof text === 'string' ? text.codePointAt(0) : undefined;
  if (point === undefined || text !== String.fromCodePoint(point)) throw new Error('not one character');
  return point;
}
