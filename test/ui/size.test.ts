import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { builtPage } from './support/built-page.js';

const KB = 1024;

test('all that a browser loads of the page, with every view opened, is 80 KB at most', async () => {
  const folder = await builtPage();
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const compressed = files
    .filter((file) => file.endsWith('.br'))
    .map((file) => ({ file, bytes: statSync(join(folder, file)).size }));
  const sum = (ending: string): number =>
    compressed.filter(({ file }) => file.endsWith(ending)).reduce((all, { bytes }) => all + bytes, 0);
  const list = compressed.map(({ file, bytes }) => `${file} ${bytes}`).join(', ');
  assert(sum('.js.br') > 10 * KB, list);
  assert(sum('.br') <= 80 * KB, `${sum('.br')} bytes: ${list}`);
  assert(sum('.css.br') <= 10 * KB, list);
});

test('the page has no script and no style in its markup, and nothing from elsewhere', async () => {
  const markup = readFileSync(join(await builtPage(), 'index.html'), 'utf8');
  assert.doesNotMatch(markup, /<script(?![^>]*\ssrc="\/ui\/)|<style|\sstyle=|\son\w+=|https?:/);
});
