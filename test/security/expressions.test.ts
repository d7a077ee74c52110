import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileIgnore } from '../../src/server/policy/bundle/ignore.js';
import { cpuTimer } from '../support/cpu-time.js';
import { needsBound, slowText } from '../support/expression-worst.js';
import { sourceSyntax, syntaxOf } from '../support/source-syntax.js';

/**
 * Every regular expression of the code meets 64 KB of its worst: somebody else may have written the text. One that cannot take that is
 * mended, or its text has a bound before it.
 */

/** Expressions that need a bound, and where their texts have it. */
const BOUNDED: Readonly<Record<string, string>> = {
  'src/auth/keys.ts /-----BEGIN ([A-Z ]*)PRIVATE KEY-----[^-]*(?:-[^-]+)*-----END \\1PRIVATE KEY-----/':
    'a setting, or its file of at most 64 KB (auth/key-text)',
  'src/cli/kit/durations.ts /^(?:\\d{1,15} ?[a-z]+ ?)+$/': 'an option of a command',
  'src/cli/commands/init/plan.ts /^[a-z0-9.-]+(?::\\d+)?(?:\\/[a-z0-9._-]+)*$/': 'an option of a command',
  'src/cli/commands/init/settings-file.ts /^[A-Za-z/.][\\w./@-]*(?::[\\w./@-]+)*$/': 'an option of a command',
  'src/client/routes/authzen.ts /^application\\/json[ \\t]*(;[ \\t]*[\\w-]+=("[^"]*"|[\\w.-]+)[ \\t]*)*$/i':
    'a header: 16 KB for all, by Node',
  'src/embedded/rest/plain-question.ts /^(?:\\/(?![-+]?\\d*(?:\\.0*)?(?:\\/|$)|\\.\\.(?:\\/|$))[\\w.~-]+)+$/':
    'a URL: 128 KiB with its headers (embedded/rest)',
  'src/embedded/rest/rest-api.ts /^(?:\\/[A-Za-z_]\\w*)+$/': 'a URL: 128 KiB with its headers (embedded/rest)',
  'src/fleet-rules/search.ts /(?:"[^"]*(?:"|$)|[^\\s"])+/g': 'typed by a person, or an option of a command',
  'src/fleet-rules/search.ts /(?:"[^"]*(?:"|$)|[^,"])+/g': 'typed by a person, or an option of a command',
  'src/fleet-rules/words.ts /\\B(?=(?:\\d{3})+$)/g': 'the digits of a number',
  'src/lib/net/place-rules.ts /^(?:\\*?\\.)?[a-z0-9_-]+(?:\\.[a-z0-9_-]+)*$/': 'a setting',
  'src/lib/net/place-rules.ts /^(?:0x[0-9a-f]*|\\d+)(?:\\.(?:0x[0-9a-f]*|\\d+))*$/': 'a setting',
  'src/server/routes/token.ts /^(\\/[\\w.~-]+)+$/': 'a body of at most 64 KiB',
  'src/server/publish/update-rules.ts /^(\\/([^~]|~[01])*)?$/': 'at most 4096 characters: checked before',
};

/** Expressions that are made of texts, by the file that makes them, with some that it makes. What people configure is for RE2. */
const MADE: Readonly<Record<string, { readonly of: string; readonly like: readonly string[] }>> = {
  'src/http/error-handler.ts': {
    of: 'the routes of the program',
    like: ['^/clients/[^/]+/actions/?$', '^/docs/.*/?$', '^/ui/assets/.*/?$'],
  },
  'src/server/policy/bundle/ignore.ts': {
    of: 'SYNC_BUNDLE_IGNORE, whose stars are no loops within each other',
    like: ['^a.*b$', '^(?=(.*?a))\\1(?:)(?=(.*?a))\\2(?:).*b$'],
  },
};

const SYNTAX = sourceSyntax();

test('finds expressions, those that are made, and what reads JSON', () => {
  assert(SYNTAX.files > 700 && SYNTAX.expressions.length > 300, `${SYNTAX.files}, ${SYNTAX.expressions.length}`);
  const text =
    "// /a+/\nconst x: RegExp = /b+/u; new RegExp(x); RegExp('c'); 'd'.match('e'); f.search(`g`); y.match(x);";
  const { expressions, made } = syntaxOf('x.ts', text);
  assert.deepEqual(
    expressions.map(({ pattern, flags, line }) => [pattern, flags, line]),
    [['b+', 'u', 2]],
  );
  assert.deepEqual(
    made.map((one) => one.text),
    ['new RegExp(x)', "RegExp('c')", "'d'.match('e')", 'f.search(`g`)'],
  );
});

test('sees what takes long', () => {
  const slow = [
    '/\\/+$/',
    '/[\\s;]+$/',
    '/^(a+)+$/',
    '/^(?:\\w|\\d)*$/',
    '/0*(\\d+)$/',
    '/<b>[\\s\\S]*?<\\/b>/',
    '/x*y*x*z/',
  ];
  const found = slow.filter((text) => slowText(text.slice(1, -1), '') !== undefined);
  assert.deepEqual(found, slow);
  for (const text of ['^[^x]*y$', '^\\d+:', '\\bxy{1,80}z', '[^\\x20-\\x7e]'])
    assert.equal(slowText(text, ''), undefined, text);
  const [group, behind, ahead] = ['(?:a|b)*', '(?<=^[^:]*|\\]):', 'x(?=.*y)'];
  assert.deepEqual(
    [group, behind, ahead, '(?:a|b){1,20}x*(?!a)'].map((text) => needsBound(text, '')),
    [true, true, true, false],
  );
});

test('no expression takes longer than in proportion to 64 KB of its worst, or its text has a bound', () => {
  const needing = new Map<string, string>();
  const known = new Map<string, ReturnType<typeof slowText>>();
  for (const { file, line, text, pattern, flags } of SYNTAX.expressions) {
    const slow = known.has(text) ? known.get(text) : slowText(pattern, flags);
    known.set(text, slow);
    if (slow === undefined && !needsBound(pattern, flags)) continue;
    const why = slow === undefined ? 'repeats a group, or looks around, without bound' : JSON.stringify(slow);
    needing.set(`${file} ${text}`, `${file}:${line}: ${why}`);
  }
  assert.deepEqual(
    [...needing].filter(([expression]) => !Object.hasOwn(BOUNDED, expression)),
    [],
    'mend the expression, or bound its text and say in BOUNDED where',
  );
  assert.deepEqual(
    Object.keys(BOUNDED).filter((expression) => !needing.has(expression)),
    [],
    'these need no bound, or are gone',
  );
});

test('expressions are made of texts in few places, and those are in proportion, too', () => {
  const files = [...new Set(SYNTAX.made.map(({ file }) => file))].sort();
  assert.deepEqual(files, Object.keys(MADE).sort(), 'write a literal, or RE2 where people configure it');
  for (const [file, { like }] of Object.entries(MADE)) {
    for (const pattern of like) assert.equal(slowText(pattern, 's'), undefined, `${file}: ${pattern}`);
  }
});

test('a pattern of SYNC_BUNDLE_IGNORE takes no longer than in proportion to a path', () => {
  const spentMs = cpuTimer();
  for (const pattern of ['*a*a*a*a*a*b', '*?*?*?*?*b', '*[!b]*[!b]*[!b]*b', '*a*'.repeat(50)]) {
    assert.equal(compileIgnore([pattern])('a'.repeat(65_536)), pattern.endsWith('*'), pattern);
  }
  assert(spentMs() < 2_000, `${spentMs()} ms`);
});
