/**
 * The directories to subscribe to, in normal form (`.` for the root), without those that lie below
 * another one of the list, since a subscription covers what is below (opal-protocol P5.8).
 */
export function outermostDirectories(directories: readonly string[]): string[] {
  const normal = directories.map((directory) =>
    directory
      .split('/')
      .filter((part) => part !== '' && part !== '.')
      .join('/'),
  );
  if (normal.includes('')) return ['.'];
  return [...new Set(normal)].filter(
    (directory) => !normal.some((other) => other !== directory && directory.startsWith(`${other}/`)),
  );
}
