/** A text that makes careless regular expressions run for hours. */
const BAIT = `${'a'.repeat(30)}!`.repeat(150);

/** Values of the signature header that are not the good one. */
export function badSignatures(good: string): string[] {
  return [
    '',
    'sha256=',
    good.slice(0, -1),
    `${good}0`,
    good.replace('sha256', 'sha1'),
    `sha256=${'0'.repeat(64)}`,
    good.replace(/.$/, (digit) => (digit === '0' ? '1' : '0')),
    `sha256=${BAIT}`,
    'sha256='.repeat(600),
    `sha256=${'\xff'.repeat(64)}`,
    `x${'sha256=('.repeat(500)}`,
  ];
}

/** Payloads that no git service sends; signed, they must still do nothing. */
export const WEBHOOK_PAYLOADS: readonly string[] = [
  ...['null', '[]', '7', '"push"', '{', '{}', ''],
  ...['repository', 'project', 'resource', 'push', 'ref', 'refUpdates'].flatMap((member) =>
    ['null', '7', '[]', '{}', '"x"', '[[[[[]]]]]', '{"__proto__":{"git_url":"x"}}'].map(
      (value) => `{"${member}":${value}}`,
    ),
  ),
  `{"repository":{"git_url":"${BAIT}","full_name":"${BAIT}"}}`,
  `{"repository":{"git_url":"--upload-pack=touch /tmp/policysync-was-here","clone_url":"ext::sh -c id"}}`,
  `{"repository":{"full_name":"../../../../${'../'.repeat(1000)}etc"}}`,
  `{"push":{"changes":${'['.repeat(5000)}${']'.repeat(5000)}}}`,
  `{"push":{"changes":[${'{"new":{"name":{"name":[]}}},'.repeat(1000)}null]}}`,
  `{"repository":${'{"repository":'.repeat(5000)}1${'}'.repeat(5000)}}`,
];
