import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { CLIENT_SETTINGS } from '../../src/client/options.js';
import type { Setting } from '../../src/lib/settings/setting.js';
import { SERVER_SETTINGS } from '../../src/server/options.js';
import { exists, filesBelow, read } from '../support/repo-pages.js';
import { until } from '../support/until.js';
import { type Block, blocksOf, type Command, commandsOf, isAsSaid, masked, settingsOf } from './guide-page.js';
import { newWorld, programOf, type World } from './guide-world.js';
import type { Terminal } from './terminal.js';

/** The guides whose machine the others go on with: what they start is what the others ask. */
const FIRST = 'docs/start/quick-start.md';
/** Guides that begin on a machine of their own. */
const ALONE = ['README.md', 'docs/how-to/deploy.md'];
const OTHERS = [...filesBelow('docs', /^[^/]+\.md$/), ...filesBelow('examples', /README\.md$/)].filter(
  (page) => page !== FIRST && !ALONE.includes(page) && !page.startsWith('docs/internals/'),
);
const EXPECTED_MS = 20_000;
/** Between two times that a command is typed. */
const TYPED_AGAIN_MS = 250;
/** Blocks that are run at least: marks may not spread. */
const LEAST_RUN = 36;

const settings: Readonly<Record<string, Setting<unknown>>> = Object.fromEntries(
  [SERVER_SETTINGS, CLIENT_SETTINGS].flatMap((all) =>
    Object.values(all).flatMap((each) => [each.env, ...each.aliases].map((name) => [name, each])),
  ),
);

/** The blocks of a page that this test runs; the others have a reason, or are settings. */
function toRun(page: string): Block[] {
  return blocksOf(read(page)).filter(
    ({ language, notRun, text }) =>
      notRun === undefined && (language === 'sample' || (isShell(language) && settingsOf(text) === undefined)),
  );
}

function isShell(language: string): boolean {
  return ['sh', 'bash', 'shell', 'console'].includes(language);
}

async function runPage(world: World, page: string): Promise<void> {
  await using terminal = await world.terminal({ BLOCKS: await writeBlocks(world, page) });
  for (const command of givenOf(page)) await runCommand(world, terminal, command, `what is given for ${page}`);
  for (const block of toRun(page)) {
    const place = `${page}:${block.line}`;
    if (block.language === 'sample') await runSample(world, terminal, block.text, place);
    else for (const command of commandsOf(block.text)) await runCommand(world, terminal, command, place);
  }
}

/** What a page takes for granted. */
function givenOf(page: string): Command[] {
  const path = `test/docs/given/${page.replaceAll('/', '-').replace(/\.md$/, '')}.sh`;
  return exists(path) ? commandsOf(read(path)) : [];
}

function commandsOfPage(page: string): Command[] {
  const blocks = toRun(page).filter(({ language }) => language !== 'sample');
  return [...givenOf(page), ...blocks.flatMap(({ text }) => commandsOf(text))];
}

/** Each block of a page in a file, for what is given: `rego-1` is the first one of Rego. */
async function writeBlocks(world: World, page: string): Promise<string> {
  const folder = join(world.folder, `blocks-of-${basename(page, '.md')}`);
  await mkdir(folder);
  const counts = new Map<string, number>();
  for (const { language, text } of blocksOf(read(page))) {
    const count = (counts.get(language) ?? 0) + 1;
    counts.set(language, count);
    await writeFile(join(folder, `${language}-${count}`), `${text}\n`);
  }
  return folder;
}

/** What would change the machine of whoever runs the tests, or needs more of it than a home. */
const FOR_A_MACHINE =
  /(?:^|[\s;&|])(?:sudo|systemctl|useradd|docker|podman|kubectl|helm|apt|apt-get|brew|npm (?:ci|i|install|run))(?=\s|$)|(?:^|\s|>)\/(?:etc|usr|opt|var|srv)\//m;

/** Runs a command; one that should print something is repeated until it does, since a reader types slower than a change travels. */
async function runCommand(world: World, terminal: Terminal, { text, expected }: Command, place: string): Promise<void> {
  assert.doesNotMatch(
    text,
    FOR_A_MACHINE,
    `${place}: needs more than a home; write <!-- not run: reason --> above the block`,
  );
  let last = await world.type(terminal, text);
  const failed = (): string => `${place}: ${text}\nended with ${last.code}\n${last.stdout}\n${last.stderr}`;
  assert.equal(last.code, 0, failed());
  if (expected === undefined) return;
  await until(
    async () => {
      if (isAsSaid(last.stdout, expected)) return true;
      await setTimeout(TYPED_AGAIN_MS);
      last = await world.type(terminal, text);
      return false;
    },
    { withinMs: EXPECTED_MS, what: 'the output that the page shows' },
  ).catch((cause: unknown) => assert.fail(`${failed()}\nThe page says: ${expected}\n${String(cause)}`));
}

async function runSample(world: World, terminal: Terminal, sample: string, place: string): Promise<void> {
  const [first = '', ...rest] = sample.split('\n');
  const wanted = masked(rest.join('\n'));
  let lines: string[] = [];
  const isSame = async (): Promise<boolean> => {
    const { stdout, stderr } = await world.type(terminal, first.slice(2));
    lines = masked(`${stderr}${stdout}`);
    return JSON.stringify(lines) === JSON.stringify(wanted);
  };
  await until(isSame, { withinMs: EXPECTED_MS, what: 'the sample' }).catch(() => {
    assert.deepEqual(lines, wanted, `${place}: ${first}`);
  });
}

for (const page of ALONE.filter((each) => toRun(each).length > 0)) {
  test(`the commands of ${page} work as they are written`, async () => {
    await using world = await newWorld();
    await runPage(world, page);
  });
}

describe(`the commands of ${FIRST}, and of the guides that go on from there`, () => {
  let world: World;
  before(async () => {
    world = await newWorld();
  });
  after(() => world[Symbol.asyncDispose]());

  // Those that ask what runs come before those that start programs of their own in its place.
  const pages = OTHERS.filter((each) => toRun(each).length > 0);
  const starting = pages.filter((page) => commandsOfPage(page).some(({ text }) => programOf(text) !== undefined));
  for (const page of [FIRST, ...pages.filter((page) => !starting.includes(page)), ...starting]) {
    test(`${page} works as it is written`, async () => {
      await world.restore(commandsOfPage(page).map(({ text }) => text));
      await runPage(world, page);
      if (page === FIRST) world.remember();
    });
  }
});

const PAGES = [FIRST, ...ALONE, ...OTHERS];

for (const page of PAGES) {
  const named = blocksOf(read(page)).flatMap(({ language, line, notRun, text }) => {
    const found = isShell(language) && notRun === undefined ? settingsOf(text) : undefined;
    return (found ?? []).map((setting) => ({ ...setting, place: `${page}:${line}` }));
  });
  if (named.length > 0) {
    test(`${page} shows settings that there are, with values that they take`, () => {
      for (const { name, value, place } of named) {
        const setting = settings[name];
        assert(setting, `${place}: there is no setting ${name}`);
        if (value.includes('...')) continue;
        const { error } = setting.schema(name).safeParse(value);
        assert.equal(error?.message, undefined, `${place}: ${name}`);
      }
    });
  }
}

test('a block of commands says that it is one', () => {
  const typed =
    /^(?:SYNC_\w+=\S* )*(?:policysync|sync-(?:server|client)|npm|npx|node|git|curl|docker|kubectl|helm|systemctl|openssl|export) /;
  const unnamed = PAGES.flatMap((page) =>
    blocksOf(read(page)).flatMap(({ language, line, text }) =>
      ['', 'text'].includes(language) && typed.test(text) ? [`${page}:${line}`] : [],
    ),
  );
  assert.deepEqual(unnamed, [], 'begin these blocks with ```sh');
});

test('a block that is not run says why', (context) => {
  const left = PAGES.flatMap((page) =>
    blocksOf(read(page)).flatMap(({ notRun, line }) => (notRun === undefined ? [] : [`${page}:${line}: ${notRun}`])),
  );
  for (const reason of left) context.diagnostic(`not run: ${reason}`);
  for (const each of left) {
    assert.match(each, /:\d+: .{12,}/);
    for (const [named] of each.matchAll(/\btest\/[\w./-]+\w/g)) assert(exists(named), `${each}: there is no ${named}`);
  }
  const run = PAGES.flatMap(toRun);
  context.diagnostic(`${run.length} blocks are run, ${left.length} are not`);
  assert(run.length >= LEAST_RUN, 'what was run is run no more');
});
