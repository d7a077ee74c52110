import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join, posix, sep } from 'node:path';
import { test } from 'node:test';
import { repoRoot } from './support/repo.js';

/** Names of what is written for people. */
const SENTENCE = String.raw`(?:message|reason|warning|why|said|sentence|incomplete|remedy|errorText\(\w+\)|log\(\))`;
const TAKEN_APART = [
  new RegExp(
    String.raw`\b${SENTENCE}\)?\??\.(?:startsWith|endsWith|includes|replace|replaceAll|split|match|matchAll|indexOf)\(`,
  ),
  new RegExp(String.raw`\.(?:test|exec|matchAll)\([^)]*\b${SENTENCE}`),
  new RegExp(String.raw`\b${SENTENCE} [!=]== ['"${'`'}][^'"${'`'}]* `),
];

/** What is written by others, who give no better form, and what is no sentence; each file with how many lines at most. */
const OTHERS: Readonly<Record<string, readonly [lines: number, whose: string]>> = {
  'src/auth/keys.ts': [2, 'OpenSSL'],
  'src/checker/check-engine.ts': [1, 'OPA'],
  'src/cli/commands/demo/stage.ts': [1, 'a code of ours, in the output of a process'],
  'src/cli/kit/token-claims.ts': [3, 'the texts of OPAL, which our servers send, too'],
  'src/client/engine/opa/external-engine.ts': [1, 'OPA'],
  'src/client/engine/opa/opa-program.ts': [2, 'OPA'],
  'src/client/engine/modules/rego-versions.ts': [1, 'OPA'],
  'src/embedded/compiled/compiled-policy.ts': [2, 'the compiled policy'],
  'src/embedded/go/go-process.ts': [1, 'the runtime of Go, which has words alone for the lack of memory'],
  'src/embedded/vocabulary.ts': [1, 'OPA'],
  'src/fleet-rules/search.ts': [2, 'a search of the text that is shown'],
  'src/lib/net/connect-failure.ts': [1, 'OpenSSL'],
  'src/lib/net/connect.ts': [1, 'OpenSSL'],
  'src/server/log/backbone/backbone-errors.ts': [1, 'a name that is not to stand twice'],
  'src/server/log/backbone/nats-session.ts': [2, 'NATS'],
  'src/server/log/backbone/postgres-session.ts': [2, 'a message between instances'],
  'src/server/log/backbone/redis-session.ts': [3, 'Redis'],
  'src/server/policy/source/git-command.ts': [2, 'git'],
  'src/server/policy/source/git-source.ts': [2, 'git'],
};

/** Every program file of `src` and `ui/src`, by its path in the repository. */
function programFiles(): string[] {
  return ['src', 'ui/src'].flatMap((folder) =>
    readdirSync(join(repoRoot(), folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => /(?<!\.test)\.tsx?$/.test(file))
      .map((file) => posix.join(folder, file.replaceAll(sep, '/'))),
  );
}

test('no sentence of ours is taken apart: what it is made of travels beside it', () => {
  const found: Record<string, string[]> = {};
  for (const file of programFiles()) {
    const text = readFileSync(join(repoRoot(), file), 'utf8');
    const lines = text.split('\n').filter((line) => TAKEN_APART.some((form) => form.test(line)));
    if (lines.length > 0) found[file] = lines.map((line) => line.trim());
  }
  const unknown = Object.entries(found).filter(([file, lines]) => lines.length > (OTHERS[file]?.[0] ?? 0));
  const advice =
    'Give the parts in a form of their own (a type, a member of the response). A text of others that has no better form is named in test/own-sentences.test.ts.';
  assert.deepEqual(Object.fromEntries(unknown), {}, advice);
  assert.deepEqual(
    Object.keys(OTHERS).filter((file) => found[file] === undefined),
    [],
    'these are named, and do it no longer',
  );
});
