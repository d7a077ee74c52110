import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { test } from 'node:test';
import { repoRoot } from './support/repo.js';

/** Waits that leave something, for each call, at what they wait for: where that lives long, memory grows for as long. */
const LEAVING = [
  {
    pattern: /\bPromise\s*\.\s*(?:race|any)\b/g,
    instead: 'firstOf of lib/run/async leaves nothing at the promises that lost',
  },
  {
    pattern: /\bAbortSignal\s*\.\s*any\b/g,
    instead: 'withAnySignal of lib/run/async leaves nothing at its signals',
  },
] as const;

/** Files whose listeners of an abort stay, and why they are few. A file that adds as many as it removes needs no line. */
const STAYING: Readonly<Record<string, string>> = {
  'src/lib/run/async.ts': 'aborted: callers wait for the end of a program, a connection or a process, once',
  'src/cli/commands/demo/run-demo.ts': 'one for the demo',
  'src/cli/live/repeat.ts': 'the signal is its own',
  'src/client/engine/opa/opa-bundle-server.ts': 'the signal is of one activation',
  'src/embedded/go/go-worker.ts': 'the signal is of one request',
  'src/pubsub/link.ts': 'one for the closing of a connection',
  'src/server/peers/ask-relay.ts': 'one for the server',
  'src/server/clients/heartbeats.ts': 'one for the server',
  'src/server/compose-clients.ts': 'one for the server',
};

const ADDED = /\.addEventListener\(\s*'abort'/g;
const REMOVED = /\.removeEventListener\(\s*'abort'/g;

const FILES = ['src', 'ui/src'].flatMap((folder) =>
  readdirSync(join(repoRoot(), folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.tsx?$/.test(file) && !file.endsWith('.test.ts'))
    .map((file) => ({
      file: `${folder}/${file.split(sep).join('/')}`,
      text: readFileSync(join(repoRoot(), folder, file), 'utf8'),
    })),
);

test('nothing waits in a way that leaves something at what it waits for', () => {
  assert(FILES.length > 100, `only ${FILES.length} files`);
  const found = FILES.flatMap(({ file, text }) =>
    LEAVING.flatMap(({ pattern, instead }) =>
      [...text.matchAll(pattern)]
        .filter(({ index }) => !isComment(text, index))
        .map(({ 0: call, index }) => `${file}:${text.slice(0, index).split('\n').length} ${call}: ${instead}`),
    ),
  );
  assert.deepEqual(found, []);
});

test('every listener of an abort is removed again, or is one of few', () => {
  const staying = FILES.filter(({ text }) => count(text, ADDED) > count(text, REMOVED)).map(({ file }) => file);
  assert.deepEqual(
    staying.sort(),
    Object.keys(STAYING).sort(),
    'remove the listener when the wait ends, or say here why it may stay',
  );
});

function count(text: string, pattern: RegExp): number {
  return [...text.matchAll(pattern)].length;
}

function isComment(text: string, index: number): boolean {
  const line = text.slice(text.lastIndexOf('\n', index) + 1, index);
  return /^\s*(?:\/\/|\/?\*)/.test(line);
}
