// Runs test files with Node's own test runner, in the order in which they are given; the Node that runs this is the one that is tested.
//
//   node scripts/lib/run-tests.mjs <file>      a JSON file: see scripts/test.mjs, runFiles()
import { readFileSync, writeFileSync } from 'node:fs';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { Progress } from './test-progress.mjs';

const { files, concurrency, timeoutMs, build, seconds, results } = JSON.parse(readFileSync(process.argv[2], 'utf8'));

const events = run({ files, concurrency, timeout: timeoutMs });
let failed = false;
events.on('test:fail', (data) => {
  // A failure that is expected is one of a test that is still to be mended.
  if (data.todo === undefined || data.todo === false) failed = true;
});

if (seconds === undefined) {
  for await (const text of events.compose(new spec())) process.stdout.write(text);
} else {
  const progress = new Progress({
    build,
    seconds: new Map(Object.entries(seconds)),
    print: (line) => console.log(line),
  });
  for await (const event of events) progress.on(event);
  await progress.end();
  writeFileSync(results, JSON.stringify(progress.seconds()));
}
process.exitCode = failed ? 1 : 0;
