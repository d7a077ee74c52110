import { gzipSync } from 'node:zlib';
import type { ComparedRequest } from './rest-comparison.js';

/** The policy of {@link REST_REQUESTS}. */
export const REST_MODULES: Readonly<Record<string, string>> = {
  'app.rego': `package app

default allow := false

allow if input.user in data.users

echo := input

noted if {
	trace("a note")
	input.user == "ann"
}

conflict := 1 if input.a

conflict := 2 if input.b

divided := 1 / input.n

names contains user if some user in data.users

text := "<a href=\\"x\\">&é\\u2028"

numbers := [1.0, -0, 1e2, 1e400, 12345678901234567890123, 0.1]

nothing := null

partial[key] := value if some key, value in data.limits

from_users[x] if some x in data.users

default_only if input.never

f(x) := x + 1
`,
  'system.rego': `package system

main := {"asked": input}

health.live if input.plugins_ready

health.never if false

health.odd := 1
`,
  'folder/odd.rego': `package odd["a b"]["7"]

x := 1
`,
};

/** The documents of {@link REST_REQUESTS}. */
export const REST_DOCUMENTS = {
  users: ['ann', 'bob'],
  limits: { a: 1, 'b/c': 2, 'd e': 3, '<f>': 4, '7': 5 },
  long: 'x'.repeat(3_000),
  deep: { list: [{ x: [1, 2] }, 'é<&>'], empty: {}, none: null, ключ: 'v' },
} as const;

const INPUT = '{"input":{"user":"ann"}}';

const post = (name: string, target: string, body: string | Buffer = INPUT, headers = {}): ComparedRequest => ({
  ...{ name, method: 'POST', target, body, headers },
});
const get = (name: string, target: string, headers = {}): ComparedRequest => ({ name, target, headers });

/** Rules that are asked for, each with every way to ask. */
export const REST_RULES: readonly string[] = [
  'allow',
  'echo',
  'noted',
  'conflict',
  'divided',
  'names',
  'text',
  'numbers',
  'nothing',
  'partial',
  'from_users',
  'default_only',
  'f',
];
const DOCUMENTS = [
  '',
  '/',
  '/app',
  '/app/',
  '/users',
  '/users/0',
  '/users/2',
  '/users/-1',
  '/limits',
  '/limits/b%2Fc',
  '/limits/d%20e',
  '/limits/d+e',
  '/limits/%3Cf%3E',
  '/limits/7',
  '/long',
  '/deep',
  '/deep/list/0/x/1',
  '/deep/none',
  '/deep/empty',
  '/deep/%D0%BA%D0%BB%D1%8E%D1%87',
  '/none',
  '/none/at/all',
  '/app/none',
  '/app/allow/deeper',
  '/system/main',
  '/odd',
  '/odd/a%20b',
  '/odd/a%20b/7',
  '/odd/a%20b/7/x',
  '/odd/x',
  '/app//allow',
  '/app/%61llow',
  '/app/allow%2F',
  '/app/al"low',
  '/app/%22',
  "/app/al'low",
  '/app/%00',
  '/app;x',
  '/7',
  '/input',
  '/../v1/data/app/allow',
  '/app/./allow',
  '/app/../app/allow',
  '/app/%2e%2e/app',
  '/app/%zz',
  '/app%',
  '/app/allow#x',
  '/app/allow?',
  '/app/f/1',
  `/a/${'b/'.repeat(50)}c`,
];
const BODIES: readonly (string | Buffer)[] = [
  '',
  ' ',
  '{}',
  '[]',
  'null',
  '1',
  '"input"',
  '{"input":null}',
  '{"input":false}',
  '{"input":[]}',
  '{"input":""}',
  '{"input":{}}',
  '{',
  '}',
  '{"input"',
  '{"input":',
  '{"input":}',
  '{"input":{"user":"ann"}',
  '{"input":{"user":"ann"}}}',
  '{"input":{"user":"ann"}} trailing',
  '{"input":1}{"input":2}',
  '{"input":1,}',
  '{"input":01}',
  '{"input":+1}',
  '{"input":.5}',
  '{"input":1.}',
  '{"input":NaN}',
  '{"input":Infinity}',
  "{'input':1}",
  '{input:1}',
  '{"input":"\t"}',
  '{"input":"\\x"}',
  '{"input":"\\ud800"}',
  '{"input":"\\ud83d\\ude00"}',
  '{"input":"\\u0000"}',
  '{"input":"a\\/b"}',
  '{"input":"<&>\\u2028\\u2029"}',
  '{"input":"<&>é😀\u2028"}',
  '{"input":-0}',
  '{"input":0.0}',
  '{"input":1.0}',
  '{"input":1e2}',
  '{"input":1E+2}',
  '{"input":1e-7}',
  '{"input":1e400}',
  '{"input":-1e400}',
  '{"input":123456789012345678901234567890}',
  '{"input":0.1234567890123456789}',
  '{"input":100000000000000000000000.0}',
  '{"input":{"b":1,"a":2}}',
  '{"input":{"a":1,"a":2}}',
  '{"input":{"":1}}',
  '{"input":[1,"1",1.0,[1],{"1":1},null,true]}',
  '{"input":{"user":"ann"},"extra":1}',
  '{"extra":1,"input":{"user":"ann"}}',
  '{"extra":{"input":1}}',
  '{"INPUT":{"user":"ann"}}',
  '{"Input":1,"input":2}',
  '{"input":1,"input":2}',
  '{"\\u0069nput":1}',
  ' \r\n\t{ "input" : { "user" : "ann" } } \n',
  '\uFEFF{"input":1}',
  Buffer.from('{"input":"\xff\xfe"}', 'latin1'),
  Buffer.from('{"inp\xfft":1}', 'latin1'),
  Buffer.from([0, 1, 2]),
  'input: 1',
  `{"input":${'['.repeat(500)}${']'.repeat(500)}}`,
  `{"input":${'['.repeat(10_001)}${']'.repeat(10_001)}}`,
  `{"input":"${'y'.repeat(5_000)}"}`,
];
const PARAMETERS = [
  'pretty',
  'pretty=true',
  'pretty=TRUE',
  'pretty=false',
  'pretty=1',
  'pretty=&pretty=',
  'pretty=false&pretty=true',
  'metrics',
  'metrics=true',
  'instrument',
  'provenance',
  'strict-builtin-errors',
  'strict-builtin-errors=false',
  'explain=notes',
  'explain=fails',
  'explain=full',
  'explain=debug',
  'explain=off',
  'explain=none',
  'explain=',
  'rule-labels',
  'unknown=1',
  '',
  '&',
  'input=1',
  'pretty;metrics',
  'pretty&metrics&provenance&explain=notes&instrument',
  'pretty&explain=full',
  '%70retty',
  'explain=%6eotes',
  'x=%zz',
];
const INPUTS = [
  '',
  '1',
  '{}',
  '{"user":"ann"}',
  'null',
  '{"user":"ann"',
  '1%202',
  '"%2B+"',
  '%7B%22user%22%3A%22ann%22%7D',
  '%7B%22user%22%3A+%22ann%22%7D',
  '%zz',
  '1&input=2',
  '1;2',
  '%22%ff%22',
  '1#x',
  '%00',
];
const QUERIES = [
  '',
  '1',
  'x',
  'x = 1',
  'data.app.allow',
  'data.app.allow = x',
  'data.users[i] = x',
  'x := input',
  'x := 1 / 0',
  'f(x',
  'data.app.conflict',
  'x = "<a>"',
  'x := data.limits[k]',
  'undefined_function(1)',
  'false',
  '_ = 1',
  'data.none',
];

/** Requests of every kind that OPA answers, odd ones most of all. */
export const REST_REQUESTS: readonly ComparedRequest[] = [
  ...REST_RULES.flatMap((rule) => [
    post(`rule ${rule}`, `/v1/data/app/${rule}`),
    post(`rule ${rule} without input`, `/v1/data/app/${rule}`, ''),
    post(`rule ${rule} in v0`, `/v0/data/app/${rule}`, '{"user":"ann"}'),
    get(`rule ${rule} by GET`, `/v1/data/app/${rule}`),
  ]),
  post('two results', '/v1/data/app/conflict', '{"input":{"a":1,"b":2}}'),
  post('two results in v0', '/v0/data/app/conflict', '{"a":1,"b":2}'),
  get('two results by GET', '/v1/data/app/conflict?input={"a":1,"b":2}'),
  post('a division by zero', '/v1/data/app/divided', '{"input":{"n":0}}'),
  post('a division', '/v1/data/app/divided', '{"input":{"n":4}}'),
  post('a division by zero, strict', '/v1/data/app/divided?strict-builtin-errors', '{"input":{"n":0}}'),
  ...DOCUMENTS.flatMap((path) => [
    get(`GET ${path}`, `/v1/data${path}`),
    post(`POST ${path}`, `/v1/data${path}`),
    post(`v0 ${path}`, `/v0/data${path}`, '{"user":"ann"}'),
  ]),
  ...BODIES.flatMap((body) => {
    const shown = JSON.stringify(body.toString('latin1').slice(0, 60));
    return [
      post(`body ${shown}`, '/v1/data/app/echo', body),
      post(`v0 body ${shown}`, '/v0/data/app/echo', body),
      post(`root body ${shown}`, '/', body),
      post(`query body ${shown}`, '/v1/query', body),
      post(`compile body ${shown}`, '/v1/compile', body),
    ];
  }),
  ...PARAMETERS.flatMap((query) => [
    post(`?${query}`, `/v1/data/app/allow?${query}`),
    post(`?${query} of a note`, `/v1/data/app/noted?${query}`),
    post(`v0 ?${query}`, `/v0/data/app/allow?${query}`, '{"user":"ann"}'),
    get(`GET ?${query}`, `/v1/data/app/allow?${query}`),
    get(`GET undefined ?${query}`, `/v1/data/app/none?${query}`),
    post(`query ?${query}`, `/v1/query?${query}`, '{"query":"data.app.allow = x","input":{"user":"ann"}}'),
    post(`compile ?${query}`, `/v1/compile?${query}`, '{"query":"data.app.allow == true","unknowns":["input"]}'),
    get(`policy ?${query}`, `/v1/policies/app.rego?${query}`),
  ]),
  ...INPUTS.map((input) => get(`input=${input}`, `/v1/data/app/echo?input=${input}`)),
  ...QUERIES.flatMap((query) => [
    post(`query ${query}`, '/v1/query', JSON.stringify({ query })),
    post(`query ${query} with input`, '/v1/query', JSON.stringify({ query, input: { user: 'ann' } })),
    get(`query by GET ${query}`, `/v1/query?q=${encodeURIComponent(query)}`),
    post(`compile ${query}`, '/v1/compile', JSON.stringify({ query, unknowns: ['input'] })),
  ]),
  get('query by GET, twice', '/v1/query?q=x%3D1&q=y%3D2'),
  get('query by GET, without q', '/v1/query'),
  post('compile a path', '/v1/compile/app/allow', INPUT),
  post('compile a path to SQL', '/v1/compile/app/allow', INPUT, { accept: 'application/vnd.opa.sql.postgresql+json' }),
  get('compile a path by GET', '/v1/compile/app/allow'),
  get('policies', '/v1/policies'),
  ...['app.rego', 'folder/odd.rego', 'folder%2Fodd.rego', 'none.rego', 'folder', ''].map((id) =>
    get(`policy ${id}`, `/v1/policies/${id}`),
  ),
  ...[
    '',
    '/',
    '/live',
    '/never',
    '/odd',
    '/none',
    '/a%20b',
    '?bundles',
    '?plugins',
    '?bundle=true&plugins',
    '/live?pretty',
  ].map((rest) => get(`health ${rest}`, `/health${rest}`)),
  get('the page of OPA', '/'),
  ...[
    'application/x-yaml',
    'text/yaml; charset=utf-8',
    'application/yaml',
    'text/plain',
    'application/json; charset=latin1',
    'x',
    '',
  ].flatMap((type) => [
    post(`type ${type}`, '/v1/data/app/echo', INPUT, { 'content-type': type }),
    post(`type ${type} of YAML`, '/v1/data/app/echo', 'input:\n  user: ann\n', { 'content-type': type }),
    post(`type ${type} of YAML in v0`, '/v0/data/app/echo', 'user: ann\n', { 'content-type': type }),
  ]),
  ...['identity', 'GZIP', 'deflate', 'br'].flatMap((coding) => [
    post(`coding ${coding}`, '/v1/data/app/echo', gzipSync(INPUT), { 'content-encoding': coding }),
    post(`coding ${coding} of plain text`, '/v1/data/app/echo', INPUT, { 'content-encoding': coding }),
    post(`coding ${coding} of nothing`, '/v1/data/app/echo', '', { 'content-encoding': coding }),
    post(`coding ${coding} in v0`, '/v0/data/app/echo', gzipSync('[1]'), { 'content-encoding': coding }),
  ]),
  ...['gzip', 'x-gzip', 'gzip, gzip'].flatMap((coding) => [
    post(`coding ${coding}`, '/v1/data/app/echo', gzipSync(INPUT), { 'content-encoding': coding }),
    post(`coding ${coding} in v0`, '/v0/data/app/echo', gzipSync('[1]'), { 'content-encoding': coding }),
  ]),
  post('gzip in two members', '/v1/data/app/echo', Buffer.concat([gzipSync('{"input":'), gzipSync('1}')]), {
    'content-encoding': 'gzip',
  }),
  post('gzip and more', '/v1/data/app/echo', Buffer.concat([gzipSync(INPUT), Buffer.from('x')]), {
    'content-encoding': 'gzip',
  }),
  post('half a gzip', '/v1/data/app/echo', gzipSync(INPUT).subarray(0, 20), { 'content-encoding': 'gzip' }),
  ...[
    'gzip',
    'gzip;q=0',
    'gzip;q=0.1',
    '*',
    'deflate, gzip',
    'GZIP',
    'br',
    'identity',
    'gzip;q=0, gzip',
    ' gzip ',
  ].flatMap((accepts) => [
    get(`accepts ${accepts}`, '/v1/data/long', { 'accept-encoding': accepts }),
    get(`accepts ${accepts} for little`, '/v1/data/users', { 'accept-encoding': accepts }),
    post(`accepts ${accepts} in v0`, '/v0/data/long', '', { 'accept-encoding': accepts }),
    get(`accepts ${accepts} for policies`, '/v1/policies', { 'accept-encoding': accepts }),
  ]),
  post('chunks', '/v1/data/app/echo', INPUT, { 'transfer-encoding': 'chunked' }),
];

/** Requests that an inline engine answers to nobody without its token; `GET /v1/policies` is none of them here. */
export const REFUSED_REQUESTS: readonly ComparedRequest[] = [
  ...['PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PURGE'].flatMap((method) =>
    [
      ...['/', '/v1/data', '/v1/data/app', '/v0/data/app', '/v1/policies', '/v1/policies/app.rego', '/v1/query'],
      ...['/v1/compile', '/v1/config', '/v1/status', '/health', '/metrics', '/none'],
    ].map((target) => ({ name: `${method} ${target}`, method, target })),
  ),
  ...[
    '/v1/config',
    '/v1/status',
    '/v1',

    '/v2/data',
    '/none',
    '/debug/pprof',
    '/v1/databases',
    '/V1/data',
    '/data',
  ].flatMap((target) => [get(`GET ${target}`, target), post(`POST ${target}`, target)]),
  ...['/v1/policies', '/v1/policies/app.rego', '/health', '/metrics'].map((target) => post(`POST ${target}`, target)),
  get('GET /v0/data', '/v0/data/app'),
  get('a query that sends', '/v1/query?q=x:=http.send(%7B%7D)'),
  get('a query that looks up', '/v1/query?q=1&q=net.lookup_ip_addr(%22a%22)'),
  get('a query of the configuration', '/v1/query?q=opa.runtime()'),
  ...['https://evil.example', 'null', 'http://localhost:1'].flatMap((origin) => [
    get(`a page of ${origin}`, '/v1/data/app', { origin }),
    post(`a page of ${origin} that posts`, '/v1/data/app/allow', INPUT, { origin }),
    get(`the health for a page of ${origin}`, '/health', { origin }),
  ]),
  ...['cross-site', 'same-site'].map((site) =>
    get(`a page that is ${site}`, '/v1/data/app', { 'sec-fetch-site': site }),
  ),
];
