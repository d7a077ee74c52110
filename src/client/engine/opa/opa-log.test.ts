import assert from 'node:assert/strict';
import { test } from 'node:test';
import { engineLogEntry, failureText, isPanicLine, lineSplitter, parseEngineLine } from './opa-log.js';

const received = '{"level":"info","msg":"Received request.","req_method":"PUT","req_path":"/v1/data/a","time":"t"}';
const sent =
  '{"level":"info","msg":"Sent response.","req_method":"PUT","req_path":"/v1/data/a","resp_status":204,"time":"t"}';
const warning = '{"fields.time":"t","level":"warning","msg":"running as root","time":"t"}';
const failed = '{"err":"listen tcp: bind: address already in use","level":"error","msg":"Listener failed.","time":"t"}';
const usage = 'Flags:';

/** What is passed on of a line, as `level message`, by format. */
const table: Record<string, Record<'none' | 'minimal' | 'http' | 'full', string | undefined>> = {
  [received]: { none: undefined, minimal: 'info Received request.', http: undefined, full: 'info Received request.' },
  [sent]: {
    none: undefined,
    minimal: 'info Sent response.',
    http: 'info PUT /v1/data/a -> 204',
    full: 'info Sent response.',
  },
  [warning]: {
    none: undefined,
    minimal: 'warn running as root',
    http: 'warn running as root',
    full: 'warn running as root',
  },
  [failed]: {
    none: 'error Listener failed.',
    minimal: 'error Listener failed.',
    http: 'error Listener failed.',
    full: 'error Listener failed.',
  },
  [usage]: { none: undefined, minimal: 'warn Flags:', http: 'warn Flags:', full: 'warn Flags:' },
};

for (const [line, byFormat] of Object.entries(table)) {
  test(`passes on by format: ${line.slice(0, 60)}`, () => {
    for (const format of ['none', 'minimal', 'http', 'full'] as const) {
      const entry = engineLogEntry(parseEngineLine(line), format);
      assert.equal(entry && `${entry.level} ${entry.message}`, byFormat[format], format);
    }
  });
}

test('full passes the fields on, without the times that our own log has', () => {
  const entry = engineLogEntry(parseEngineLine(sent), 'full');
  assert.deepEqual(entry?.fields, { req_method: 'PUT', req_path: '/v1/data/a', resp_status: 204 });
});

test('an error keeps its fields in every format', () => {
  const entry = engineLogEntry(parseEngineLine(failed), 'none');
  assert.deepEqual(entry?.fields, { err: 'listen tcp: bind: address already in use' });
});

test('a Go panic is noticed in text lines', () => {
  for (const text of [
    'panic: runtime error: invalid memory address or nil pointer dereference',
    'fatal error: all goroutines are asleep - deadlock!',
    '2026/11/21 12:00:00 http: panic serving 127.0.0.1:1: boom',
    '\t/usr/local/go/src/runtime/panic.go:884 +0x212',
  ]) {
    assert.equal(isPanicLine(parseEngineLine(text)), true, text);
  }
});

test('what a caller of the engine writes is never taken for a panic', () => {
  const line =
    '{"level":"info","msg":"panic: go/src/runtime/panic.go:1","req_path":"/v1/data/go/src/runtime/panic.go:1"}';
  assert.equal(isPanicLine(parseEngineLine(line)), false);
});

test('the reason of a failure is taken from errors only', () => {
  assert.equal(failureText(parseEngineLine(failed)), 'Listener failed. listen tcp: bind: address already in use');
  assert.equal(failureText(parseEngineLine('error: config error: bad')), 'error: config error: bad');
  assert.equal(failureText(parseEngineLine(warning)), undefined);
  assert.equal(failureText(parseEngineLine(usage)), undefined);
});

test('lines are put together from pieces, and a huge line is cut', () => {
  const lines: string[] = [];
  const feed = lineSplitter((line) => lines.push(line));
  feed('on');
  feed('e\r\ntwo\n\nth');
  assert.deepEqual(lines, ['one', 'two']);
  feed('ree\n');
  feed('x'.repeat(1024 * 1024 + 1));
  assert.equal(lines.length, 4);
  assert.equal(lines[2], 'three');
});
