// Prints the notes of one version: its part of CHANGELOG.md, one line for each paragraph and item, links that work elsewhere.
//
//   node scripts/release-notes.mjs v0.2.0          a tag or a version; without one the version of package.json
//   node scripts/release-notes.mjs --unreleased    what is not released yet, changes/ included
//
// `--root <folder>` reads another repository. Links are absolute where SITE_SOURCE, or GitHub's variables, say where files are.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { joinedPart, partOf, readChanges } from './lib/changelog.mjs';
import { Fatal, main } from './lib/run.mjs';

/** The lines of a released version: its part has a date. */
function releasedPart(changelog, version) {
  const part = partOf(
    changelog,
    (heading) => heading.startsWith(`${version} - `) && /^\d{4}-\d{2}-\d{2}$/.test(heading.slice(version.length + 3)),
  );
  if (part !== undefined) return part.lines;
  throw new Fatal(
    `CHANGELOG.md has no part "## ${version} - <year-month-day>": "node scripts/changelog.mjs" makes it of changes/.`,
  );
}

/** Release notes keep line breaks: lines of one paragraph or item become one. Code blocks stay. */
function unwrapped(lines) {
  const result = [];
  let isCode = false;
  for (const line of lines) {
    const fence = line.trimStart().startsWith('```');
    const last = result.at(-1);
    const continues = !isCode && !fence && last !== undefined && /\S/.test(last) && !/^(#|\||\s*```)/.test(last);
    if (continues && /\S/.test(line) && !/^\s*([-*] |\d+\. |#|\|)/.test(line)) {
      result[result.length - 1] = `${last} ${line.trim()}`;
    } else {
      result.push(line);
    }
    if (fence) isCode = !isCode;
  }
  return result;
}

function absoluteLinks(text, source) {
  return source === undefined ? text : text.replaceAll(/\]\((?![a-z]+:|#)([^)\s]+)\)/g, `](${source}/$1)`);
}

/** Where the files of this version can be read. */
function sourceOf(env, tag) {
  if (env.SITE_SOURCE) return env.SITE_SOURCE;
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: repository } = env;
  return server && repository ? `${server}/${repository}/blob/${tag}` : undefined;
}

/** A release can download OPA: each of its official assets has a sum. */
function requireSums(root) {
  const file = 'src/client/engine/get-opa/opa-version.ts';
  if (!existsSync(join(root, file))) return; // another repository
  const missing = /^ {2}'?(opa_[\w.]+)'?: '',$/m.exec(readFileSync(join(root, file), 'utf8'))?.[1];
  if (missing === undefined) return;
  throw new Fatal(
    `${file} has no checksum of ${missing}: "npm run engine:update -- <version>" gets those of a release of OPA.`,
  );
}

await main(() => {
  const { values, positionals } = parseArgs({
    options: { unreleased: { type: 'boolean' }, root: { type: 'string' } },
    allowPositionals: true,
  });
  const root = values.root ?? dirname(import.meta.dirname);
  const changelog = readFileSync(join(root, 'CHANGELOG.md'), 'utf8');
  const own = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version;
  const version = (positionals[0] ?? own).replace(/^v/, '');
  if (!values.unreleased && version !== own) {
    throw new Fatal(`package.json has version ${own}, not ${version}: set it with "npm version ${version}", then tag.`);
  }
  const part = values.unreleased
    ? joinedPart(partOf(changelog, (heading) => heading.endsWith(' - unreleased'))?.lines ?? [], readChanges(root))
    : releasedPart(changelog, version);
  const text = unwrapped(part).join('\n').trim();
  if (text === '') {
    const where = values.unreleased ? 'changes/' : `The part "${version}" of CHANGELOG.md`;
    throw new Fatal(`${where} is empty: say what changes for users.`);
  }
  if (!values.unreleased) requireSums(root);
  console.log(absoluteLinks(text, sourceOf(process.env, values.unreleased ? 'main' : `v${version}`)));
  return 0;
});
