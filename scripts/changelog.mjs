// Joins the changes since the last release (changes/*.md) into CHANGELOG.md, under the version of
// package.json, and removes their files.
//
//   node scripts/changelog.mjs [--date 2027-01-02]
//
// The date is today's unless it is given. `--root <folder>` works on another repository.
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { joinedChangelog, readChanges } from './lib/changelog.mjs';
import { Fatal, main } from './lib/run.mjs';

await main(() => {
  const { values } = parseArgs({ options: { date: { type: 'string' }, root: { type: 'string' } } });
  const root = values.root ?? dirname(import.meta.dirname);
  const date = values.date ?? new Date().toISOString().slice(0, 10);
  if (!/^\d{4}-\d{2}-\d{2}$/.test(date))
    throw new Fatal(`--date ${date}: a date is a year, a month and a day, as 2027-01-02.`);
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const file = join(root, 'CHANGELOG.md');
  const changes = readChanges(root);
  writeFileSync(file, joinedChangelog(readFileSync(file, 'utf8'), changes, version, date));
  for (const { path } of changes) rmSync(join(root, path));
  console.log(`CHANGELOG.md has ${version} with ${changes.length} changes of changes/`);
  return 0;
});
