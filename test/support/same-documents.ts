import assert from 'node:assert/strict';
import { elements, jsonKind, members } from '../../src/lib/json/json-text.js';

/**
 * The oracle of what engines hold: where two JSON texts differ, and how; the first `limit`. Undefined is no document. Everything counts
 * that a decision can see, also an object without members, null, and how a number is written; the order of members and the escapes of
 * strings do not.
 */
export function documentDifferences(expected: string | undefined, actual: string | undefined, limit = 12): string[] {
  const found: string[] = [];
  compare(expected?.trim(), actual?.trim(), '', (at, should, is) => {
    if (found.length < limit) found.push(`${at === '' ? '/' : at}: should be ${shown(should)}, is ${shown(is)}`);
    return found.length < limit;
  });
  return found;
}

/** Fails where {@link documentDifferences} finds any. */
export function assertSameDocuments(actual: string | undefined, expected: string | undefined, message = ''): void {
  const found = documentDifferences(expected, actual);
  assert.equal(found.length, 0, [message, ...found].filter((line) => line !== '').join('\n'));
}

type Tell = (at: string, expected: string | undefined, actual: string | undefined) => boolean;

/** Returns false once nobody wants to hear more. */
function compare(expected: string | undefined, actual: string | undefined, at: string, tell: Tell): boolean {
  if (expected === actual) return true;
  if (expected === undefined || actual === undefined) return tell(at, expected, actual);
  const kind = jsonKind(expected);
  if (kind !== jsonKind(actual)) return tell(at, expected, actual);
  switch (kind) {
    case 'object': {
      const [these, those] = [members(expected), members(actual)];
      const keys = [...new Set([...these.keys(), ...those.keys()])].sort();
      return keys.every((key) => compare(these.get(key), those.get(key), `${at}/${key}`, tell));
    }
    case 'array': {
      const [these, those] = [elements(expected), elements(actual)];
      if (these.length !== those.length) return tell(at, expected, actual);
      return these.every((item, index) => compare(item, those[index], `${at}/${index}`, tell));
    }
    case 'scalar': {
      const areStrings = expected.startsWith('"') && actual.startsWith('"');
      return (areStrings && JSON.parse(expected) === JSON.parse(actual)) || tell(at, expected, actual);
    }
  }
}

function shown(text: string | undefined): string {
  if (text === undefined) return 'absent';
  return text.length > 160 ? `${text.slice(0, 160)}... (${text.length} characters)` : text;
}
