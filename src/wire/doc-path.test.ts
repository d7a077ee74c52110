import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ANY_CHARACTER } from '../../test/support/any-character.js';
import {
  docPathPointer,
  docPathText,
  docPathUrl,
  isAtOrBelow,
  parseDocPath,
  parsePointer,
  pathsOverlap,
} from './doc-path.js';

/** Anything that a path can have between two slashes once it is decoded. */
const segment = fc
  .oneof(
    fc.string({ unit: ANY_CHARACTER, minLength: 1, maxLength: 4 }),
    fc.constantFrom('__proto__', 'a/b', '~', '~1', '%2F', '...'),
  )
  .filter((text) => text !== '.' && text !== '..');
const path = fc.array(segment, { maxLength: 4 });

describe('a document path', () => {
  const TABLE: Record<string, string[]> = {
    '': [],
    '/': [],
    '//': [],
    a: ['a'],
    '/a/b': ['a', 'b'],
    'a//b/': ['a', 'b'],
    '/a%2Fb/c%20d': ['a/b', 'c d'],
    '/%E2%82%AC/€': ['€', '€'],
    '/__proto__/constructor': ['__proto__', 'constructor'],
    '/~1/~0': ['~1', '~0'],
    '/.../.a': ['...', '.a'],
    '/a b+c': ['a b+c'],
    '/%25': ['%'],
  };
  for (const [text, segments] of Object.entries(TABLE)) {
    it(`reads ${JSON.stringify(text)}`, () => assert.deepEqual(parseDocPath(text), segments));
  }

  for (const bad of [
    '/a/../b',
    '..',
    '.',
    '/a/./b',
    '/%2E%2e/a',
    '/a/%2e',
    '/%',
    '/%zz',
    '/%C3',
    '/\ud800',
    '/a\udc00b',
  ]) {
    it(`refuses ${JSON.stringify(bad)}`, () => assert.throws(() => parseDocPath(bad), { code: 'request_invalid' }));
  }

  it('is the same again after a way through a URL', () => {
    fc.assert(
      fc.property(path, (segments) => {
        assert.deepEqual(parseDocPath(docPathUrl(segments)), segments);
        const { pathname } = new URL(`http://h/v1/data${docPathUrl(segments)}`);
        assert.equal(pathname, `/v1/data${docPathUrl(segments)}`, 'a URL parser leaves it alone');
      }),
    );
  });

  it('whatever text it is read from is refused or has a URL, and its normal form is stable', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('/', '.', '%', '2', 'F', 'a', '\ud800', '\udc00', '€') }),
        (text) => {
          let segments: readonly string[];
          try {
            segments = parseDocPath(text);
          } catch {
            return; // refused is an answer
          }
          assert(segments.every((each) => each !== '' && each !== '.' && each !== '..'));
          assert.deepEqual(parseDocPath(docPathUrl(segments)), segments);
        },
      ),
      { numRuns: 3000 },
    );
  });

  it('shows as people read it', () => {
    assert.equal(docPathText([]), '/');
    assert.equal(docPathUrl([]), '');
    assert.equal(docPathText(['a/b', 'c']), '/a%2Fb/c');
  });
});

describe('a JSON pointer', () => {
  it('is the same again after a way through text', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: ANY_CHARACTER }).filter((each) => !/^\.\.?$/.test(each))), (segments) => {
        assert.deepEqual(parsePointer(docPathPointer(segments)), segments);
      }),
    );
  });

  const TABLE: Record<string, string[]> = {
    '': [],
    '/': [''],
    '//': ['', ''],
    '/a~1b/m~0n': ['a/b', 'm~n'],
    '/~01': ['~1'],
    '/-': ['-'],
    '/ /%25': [' ', '%25'],
  };
  for (const [text, segments] of Object.entries(TABLE)) {
    it(`reads ${JSON.stringify(text)}`, () => assert.deepEqual(parsePointer(text), segments));
  }

  it('has no segment that would be another path in a URL', () => {
    for (const text of ['/.', '/..', '/a/../b', '/\ud800']) {
      assert.throws(() => parsePointer(text), { code: 'request_invalid' }, text);
    }
  });

  it('starts with a slash', () => assert.throws(() => parsePointer('a/b'), { code: 'request_invalid' }));
});

describe('paths overlap', () => {
  it('when one is the other or lies below it, by segments and not by letters', () => {
    assert.deepEqual(
      [
        isAtOrBelow(['a', 'b'], ['a']),
        isAtOrBelow(['a'], ['a', 'b']),
        isAtOrBelow(['a'], ['a']),
        isAtOrBelow(['ab'], ['a']),
      ],
      [true, false, true, false],
    );
    assert.equal(pathsOverlap(['a/b'], ['a', 'b']), false);
  });

  it('as prefixes of one list of segments do', () => {
    const short = fc.array(fc.constantFrom('a', 'b'), { maxLength: 3 });
    fc.assert(
      fc.property(short, short, (a, b) => {
        const below = JSON.stringify(a.slice(0, b.length)) === JSON.stringify(b);
        assert.equal(isAtOrBelow(a, b), below);
        assert.equal(pathsOverlap(a, b), below || isAtOrBelow(b, a));
        assert.equal(pathsOverlap(a, b), pathsOverlap(b, a));
      }),
    );
  });
});
