import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { parseStory, type StoryStep, storyText } from '../support/datadriven.js';
import { repoRoot } from '../support/repo.js';
import { Story } from '../support/story.js';

/**
 * What a client does with what its server, its sources and its engine do, one file for each line of behaviour: `*.txt` beside this
 * file. A file begins with `start`; `test/support/story.ts` has the commands, `test/support/datadriven.ts` the form.
 *
 * `SYNC_TEST_REWRITE=1 npm test -- stories` writes again what each step prints. Read the difference before you commit it.
 */

const FOLDER = join(repoRoot(), 'test', 'stories');
const REWRITE = process.env.SYNC_TEST_REWRITE === '1';

async function taken(story: Story, step: StoryStep): Promise<readonly string[]> {
  try {
    return await story.take(step);
  } catch (cause) {
    throw new Error(`line ${step.line}: ${step.command} ${step.rest}`, { cause });
  }
}

for (const name of readdirSync(FOLDER).filter((file) => file.endsWith('.txt'))) {
  describe(name, () => {
    it('goes as it is told', async () => {
      const file = join(FOLDER, name);
      const text = readFileSync(file, 'utf8');
      const parts = parseStory(text);
      const steps = parts.flatMap((part) => ('step' in part ? [part.step] : []));
      const printed = new Map<StoryStep, readonly string[]>();
      let story: Story | undefined;
      try {
        for (const step of steps) {
          // A file may have several stories.
          if (step.command === 'start') {
            await story?.[Symbol.asyncDispose]();
            story = new Story(step.named);
          }
          if (story === undefined) throw new Error('a story begins with start');
          printed.set(step, await taken(story, step));
        }
      } finally {
        await story?.[Symbol.asyncDispose]();
      }
      const told = storyText(parts, printed);
      if (REWRITE) writeFileSync(file, told);
      else assert.equal(told, text);
    });
  });
}
