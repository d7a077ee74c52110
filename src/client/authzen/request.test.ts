import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../lib/errors.js';
import { type EvaluationsRequest, inputOf, MAX_DEPTH, readEvaluation, readEvaluations, readSearch } from './request.js';

const SUBJECT = '{"type":"user","id":"ann"}';
const ACTION = '{"name":"read"}';
const RESOURCE = '{"type":"todo","id":"1"}';
const WHOLE = `"subject":${SUBJECT},"action":${ACTION},"resource":${RESOURCE}`;
const LIMITS = { maxEvaluations: 3, maxTotalLength: 1000 };

const single = (text: string) => readEvaluation(Buffer.from(text));
const many = (text: string, limits = LIMITS): EvaluationsRequest => readEvaluations(Buffer.from(text), limits);
const search = (text: string, kind: 'subject' | 'resource' | 'action') => readSearch(Buffer.from(text), kind);

function refuses(read: () => unknown, pattern: RegExp, what?: string): void {
  assert.throws(
    read,
    (error) => {
      assert(error instanceof SyncError, what);
      assert.equal(error.status, 400, what);
      assert.match(error.message, pattern, what);
      return true;
    },
    what,
  );
}

/** The inputs of a request of several evaluations; a text is what is wrong with one. */
function inputsOf(request: EvaluationsRequest): unknown[] {
  assert('items' in request);
  return request.items.map((item) => ('problem' in item ? item.problem : JSON.parse(inputOf(item))));
}

test('the input has the four members as they were written, and no other', () => {
  const text = `{ "x":1, "context": {"n":12345678901234567890, "m":1.0 },${WHOLE},"page":{},"y":[] }`;
  assert.equal(
    inputOf(single(text)),
    `{"subject":${SUBJECT},"action":${ACTION},"resource":${RESOURCE},"context":{"n":12345678901234567890, "m":1.0 }}`,
  );
  assert.equal(inputOf(single(`{${WHOLE}}`)), `{"subject":${SUBJECT},"action":${ACTION},"resource":${RESOURCE}}`);
});

test('null is no object, no list and no text, as the schema of the specification has it', () => {
  refuses(() => single(`{${WHOLE},"context":null}`), /context: must be an object, and is null/);
  refuses(() => many(`{${WHOLE},"evaluations":null}`), /evaluations: must be a list, and is null/);
  refuses(() => many(`{${WHOLE},"options":null}`), /options: must be an object, and is null/);
  refuses(() => many(`{${WHOLE},"context":null,"evaluations":[{}]}`), /context: must be an object, and is null/);
  assert.deepEqual(inputsOf(many(`{${WHOLE},"evaluations":[{"context":null},{"subject":null}]}`)), [
    'context: must be an object, and is null',
    'subject: must be an object, and is null',
  ]);
});

test('what is missing or of a wrong type is a 400 that names it', () => {
  const cases: readonly [string, RegExp][] = [
    ['', /JSON object is required/],
    [' ', /not JSON/],
    ['{', /not JSON/],
    ['{} {}', /not JSON/],
    ['[]', /the body: must be an object, and is a list/],
    ['null', /the body: must be an object, and is null/],
    ['"x"', /the body: must be an object, and is a string/],
    ['{}', /subject: is missing/],
    [`{"subject":null,"action":${ACTION},"resource":${RESOURCE}}`, /subject: must be an object, and is null/],
    [`{"subject":"ann","action":${ACTION},"resource":${RESOURCE}}`, /subject: must be an object, and is a string/],
    [`{"subject":{"id":"x"},"action":${ACTION},"resource":${RESOURCE}}`, /subject\.type: is missing/],
    [`{"subject":{"type":"x"},"action":${ACTION},"resource":${RESOURCE}}`, /subject\.id: is missing/],
    [`{"subject":{"type":"x","id":1},"action":${ACTION},"resource":${RESOURCE}}`, /subject\.id: must be a string/],
    [`{"subject":${SUBJECT},"resource":${RESOURCE}}`, /action: is missing/],
    [`{"subject":${SUBJECT},"action":{},"resource":${RESOURCE}}`, /action\.name: is missing/],
    [
      `{"subject":${SUBJECT},"action":{"name":123},"resource":${RESOURCE}}`,
      /action\.name: must be a string, and is a number/,
    ],
    [`{"subject":${SUBJECT},"action":${ACTION}}`, /resource: is missing/],
    [`{"subject":${SUBJECT},"action":${ACTION},"resource":{"id":"1"}}`, /resource\.type: is missing/],
    [`{"subject":${SUBJECT},"action":${ACTION},"resource":{"type":"1"}}`, /resource\.id: is missing/],
    [`{${WHOLE},"context":[]}`, /context: must be an object, and is a list/],
    [
      `{"subject":{"type":"x","id":"y","properties":true},"action":${ACTION},"resource":${RESOURCE}}`,
      /subject\.properties: must be an object/,
    ],
    [
      `{"subject":{"type":"x","id":"\\ud800"},"action":${ACTION},"resource":${RESOURCE}}`,
      /subject\.id: has half a surrogate pair/,
    ],
  ];
  for (const [text, pattern] of cases) {
    refuses(() => single(text), pattern, text);
    refuses(() => many(text), pattern, text);
  }
});

test('a member that stands twice is refused, where the specification names members', () => {
  refuses(() => single(`{${WHOLE},"subject":${SUBJECT}}`), /"subject" stands in it twice/);
  refuses(() => single(`{${WHOLE},"sub\\u006aect":${SUBJECT}}`), /"subject" stands in it twice/);
  const twice = `{"subject":{"type":"user","id":"ann","id":"root"},"action":${ACTION},"resource":${RESOURCE}}`;
  refuses(() => single(twice), /subject: the member "id" stands in it twice/);
});

test('a number that no double can hold is refused, wherever it is; others stay as they were written', () => {
  const withNumber = (number: string): string => `{${WHOLE},"context":{"a":"1e999\\"","n":[${number}]}}`;
  for (const number of [
    '0',
    '-0.0',
    '1.50',
    '1e308',
    '-1e-300',
    '12345678901234567890.123',
    '0.000',
    '5e-324',
    '1E+2',
  ]) {
    assert.match(inputOf(single(withNumber(number))), new RegExp(`\\[${number.replaceAll(/[.+]/g, '\\$&')}\\]`));
  }
  for (const number of [
    ...['1e309', '-1e400', '1e9999999', '1e99999999999999', '1e-9999999', '0e9999999', '9'.repeat(310)],
    ...[`0.${'3'.repeat(500)}`, `0.${'0'.repeat(500)}1`, `${'9'.repeat(250)}e99`],
  ]) {
    refuses(() => single(withNumber(number)), /no IEEE 754 double can hold/, number.slice(0, 40));
  }
});

test('the depth is bounded', () => {
  const nested = (levels: number): string => `{${WHOLE},"context":{"x":${'['.repeat(levels)}${']'.repeat(levels)}}}`;
  single(nested(MAX_DEPTH - 2));
  refuses(() => single(nested(MAX_DEPTH - 1)), /not JSON: .*nested/);
  refuses(() => single(nested(200_000)), /not JSON: .*nested/);
});

test('without evaluations, or with none, it is one evaluation', () => {
  for (const more of ['', ',"evaluations":[]', ',"evaluations":[],"options":{}']) {
    const request = many(`{${WHOLE}${more}}`);
    assert('single' in request, more);
    assert.equal(inputOf(request.single), `{${WHOLE}}`);
  }
});

test('members of the request are defaults, and are replaced as a whole', () => {
  const [subject, action, resource] = [SUBJECT, ACTION, RESOURCE].map((text) => JSON.parse(text) as unknown);
  const text = `{"subject":${SUBJECT},"action":${ACTION},"resource":{"type":"todo","id":"1","properties":{"a":1}},
    "context":{"time":"t","ip":"i"},
    "evaluations":[{},{"resource":{"type":"todo","id":"2"}},{"context":{"time":"u"},"resource":${RESOURCE}}]}`;
  assert.deepEqual(inputsOf(many(text)), [
    { subject, action, resource: { type: 'todo', id: '1', properties: { a: 1 } }, context: { time: 't', ip: 'i' } },
    { subject, action, resource: { type: 'todo', id: '2' }, context: { time: 't', ip: 'i' } },
    { subject, action, resource, context: { time: 'u' } },
  ]);
});

test('what is wrong with one evaluation is an error of that one', () => {
  const text = `{"subject":${SUBJECT},"action":${ACTION},"evaluations":[{"resource":${RESOURCE}},{},{"resource":{"type":"x"},"context":1}]}`;
  const [first, ...others] = inputsOf(many(text));
  assert.equal(typeof first, 'object');
  assert.deepEqual(others, ['resource: is missing', 'resource.id: is missing']);
});

test('a default may be incomplete; a wrong one is an error of the request', () => {
  const own = `{"resource":${RESOURCE}}`;
  const request = (resource: string, evaluations: string): string =>
    `{"subject":${SUBJECT},"action":${ACTION},"resource":${resource},"evaluations":[${evaluations}]}`;
  assert.equal(typeof inputsOf(many(request('{}', own)))[0], 'object');
  assert.equal(inputsOf(many(request('{}', `${own},{}`)))[1], 'resource.type: is missing');
  assert.equal(inputsOf(many(request('{"id":"1","id":"2"}', '{}')))[0], 'resource: the member "id" stands in it twice');
  refuses(() => many(request('"x"', own)), /resource: must be an object/);
});

test('a subject or resource without a type takes that of its default, and nothing else', () => {
  const resources = (given: string): unknown[] =>
    inputsOf(
      many(
        `{"subject":${SUBJECT},"action":${ACTION},"resource":{"type":"todo","id":"1","properties":{"a":1}},"evaluations":[{"resource":${given}}]}`,
      ),
    ).map((input) => (typeof input === 'string' ? input : (input as { resource: unknown }).resource));
  assert.deepEqual(resources('{"id":"2"}'), [{ type: 'todo', id: '2' }]);
  assert.deepEqual(resources('{"id":"2","properties":{"b":1}}'), [{ type: 'todo', id: '2', properties: { b: 1 } }]);
  assert.deepEqual(resources('{"type":null,"id":"2"}'), ['resource.type: must be a string, and is null']);
  assert.deepEqual(resources('{"type":"note"}'), ['resource.id: is missing']);
  assert.deepEqual(resources('{}'), ['resource.id: is missing']);
  assert.deepEqual(resources('{"type":7,"id":"2"}'), ['resource.type: must be a string, and is a number']);
});

test('evaluations that are no list of objects, and options that are wrong, are errors of the request', () => {
  refuses(() => many(`{${WHOLE},"evaluations":{}}`), /evaluations: must be a list, and is an object/);
  refuses(() => many(`{${WHOLE},"evaluations":[{},1]}`), /evaluations\.1: must be an object, and is a number/);
  refuses(() => many(`{${WHOLE},"evaluations":[{}],"options":1}`), /options: must be an object/);
  const semantic = (text: string) => () =>
    many(`{${WHOLE},"evaluations":[{}],"options":{"evaluations_semantic":${text}}}`);
  refuses(semantic('"all"'), /must be one of execute_all, deny_on_first_deny, permit_on_first_permit/);
  refuses(semantic('null'), /options\.evaluations_semantic: must be a string, and is null/);
  refuses(semantic('1'), /options\.evaluations_semantic: must be a string/);
  for (const [text, semanticOf] of [
    ['"deny_on_first_deny"', 'deny_on_first_deny'],
    ['"permit_\\u006fn_first_permit"', 'permit_on_first_permit'],
  ] as const) {
    const request = semantic(text)();
    assert('items' in request);
    assert.equal(request.semantic, semanticOf);
  }
});

test('the number of evaluations, and what defaults make of them, are bounded', () => {
  refuses(() => many(`{${WHOLE},"evaluations":[{},{},{},{}]}`), /has 4 elements, at most 3 are allowed/);
  const large = `{${WHOLE},"context":{"x":"${'y'.repeat(400)}"},"evaluations":[{},{},{}]}`;
  refuses(() => many(large), /characters in all with their defaults, at most 1000/);
  assert.equal(inputsOf(many(large, { ...LIMITS, maxTotalLength: 2000 })).length, 3);
});

test('a search has no id of what it looks for, and every other part whole', () => {
  const subjects = search(
    `{"subject":{"type":"user","id":"ann","properties":{"a":1.0}},"action":${ACTION},"resource":${RESOURCE}}`,
    'subject',
  );
  assert.equal(
    inputOf(subjects),
    `{"subject":{"type":"user","properties":{"a":1.0}},"action":${ACTION},"resource":${RESOURCE}}`,
  );
  const resources = search(`{"subject":${SUBJECT},"action":${ACTION},"resource":{"id":7,"type":"todo"}}`, 'resource');
  assert.equal(inputOf(resources), `{"subject":${SUBJECT},"action":${ACTION},"resource":{"type":"todo"}}`);
  const actions = search(`{"subject":${SUBJECT},"action":"ignored","resource":${RESOURCE},"context":{}}`, 'action');
  assert.equal(inputOf(actions), `{"subject":${SUBJECT},"resource":${RESOURCE},"context":{}}`);
});

test('a search without what it needs is a 400', () => {
  const typed = '{"type":"user"}';
  refuses(() => search(`{"subject":${typed},"resource":${RESOURCE}}`, 'subject'), /action: is missing/);
  refuses(
    () => search(`{"subject":${typed},"action":${ACTION},"resource":{"type":"x"}}`, 'subject'),
    /resource\.id: is missing/,
  );
  refuses(
    () => search(`{"subject":{},"action":${ACTION},"resource":${RESOURCE}}`, 'subject'),
    /subject\.type: is missing/,
  );
  refuses(() => search(`{"action":${ACTION},"resource":{"type":"x"}}`, 'resource'), /subject: is missing/);
  refuses(
    () => search(`{"subject":${typed},"action":${ACTION},"resource":{"type":"x"}}`, 'resource'),
    /subject\.id: is missing/,
  );
  refuses(() => search(`{"subject":${SUBJECT}}`, 'action'), /resource: is missing/);
  refuses(() => search(`{"subject":${typed},"resource":${RESOURCE}}`, 'action'), /subject\.id: is missing/);
  const paged = (page: string) => () =>
    search(`{"subject":${SUBJECT},"resource":${RESOURCE},"page":${page}}`, 'action');
  for (const limit of ['-1', '1.5', '"1"', '1e3', '1000000000000000'])
    refuses(paged(`{"limit":${limit}}`), /page\.limit/, limit);
  refuses(paged('{"token":1}'), /page\.token: must be a string/);
  refuses(paged('{"properties":1}'), /page\.properties: must be an object/);
  refuses(paged('1'), /page: must be an object/);
});
