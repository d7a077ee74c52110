import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorBodyText } from './problem-text.js';

test('a page of a proxy is its title, without the status', () => {
  const page =
    '<html>\r\n<head><title>400 The plain HTTP request was sent to HTTPS port</title></head>\r\n<body>...</body></html>';
  assert.equal(errorBodyText(page), 'The plain HTTP request was sent to HTTPS port');
  assert.equal(errorBodyText('<!DOCTYPE html><html lang="en"><title>\n Bad\n Gateway </title>'), 'Bad Gateway');
});

test('a page without a title, and what is no page, is shown as it is, up to 500 characters', () => {
  assert.equal(errorBodyText('<html><title> </title>'), '<html><title> </title>');
  assert.equal(errorBodyText('no <title>x</title>'), 'no <title>x</title>');
  assert.equal(errorBodyText(`<html><title>${'x'.repeat(600)}</title>`), `${'x'.repeat(500)}...`);
});
