// Prints the notes of one version: its part of CHANGELOG.md, one line for each paragraph and item, links that work elsewhere.
//
//   node scripts/release-notes.mjs v0.2.0          a tag or a version; without one the version of package.json
//   node scripts/release-notes.mjs --unreleased    what is not released yet
//
// `--root <folder>` reads another repository. Links are absolute where SITE_SOURCE, or GitHub's variables, say where files are.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { Fatal, main } from './lib/run.mjs';

/** The lines between the heading of a part and the next heading of its level; undefined without such a heading. */
function partOf(changelog, isHeading) {
  const lines = changelog.split('\n');
  const start = lines.findIndex((line) => line.startsWith('## ') && isHeading(line.slice(3)));
  if (start < 0) return undefined;
  const next = lines.findIndex((line, at) => at > start && line.startsWith('## '));
  return lines.slice(start + 1, next < 0 ? undefined : next);
}

/** `Unreleased`, or a version with its date. */
function isPartOf(heading, name) {
  if (name === 'Unreleased') return heading === name;
  return heading.startsWith(`${name} - `) && /^\d{4}-\d{2}-\d{2}$/.test(heading.slice(name.length + 3));
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
  const file = 'src/client/engine/opa-version.ts';
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
  const name = values.unreleased ? 'Unreleased' : version;
  const part = partOf(changelog, (heading) => isPartOf(heading, name));
  if (part === undefined) {
    throw new Fatal(
      `CHANGELOG.md has no part "## ${name}${values.unreleased ? '' : ' - <year-month-day>'}": what is released has a part with its date.`,
    );
  }
  const text = unwrapped(part).join('\n').trim();
  if (text === '') throw new Fatal(`The part "${name}" of CHANGELOG.md is empty: say what changes for users.`);
  if (!values.unreleased) requireSums(root);
  console.log(absoluteLinks(text, sourceOf(process.env, values.unreleased ? 'main' : `v${version}`)));
  return 0;
});
