import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fullName, helpText, leavesOf } from '../scripts/lib/commands-page.js';
import { policysync } from '../src/cli/commands.js';
import { configJson } from '../src/cli/kit/config-text.js';
import { clientProgram } from '../src/cli/programs/client-program.js';
import { serverProgram } from '../src/cli/programs/server-program.js';
import { readSettings } from '../src/lib/settings/options.js';
import { clientAnswer } from '../src/wire/client-details.js';
import { read } from './support/repo-pages.js';

/** The help as a terminal shows it; docs/reference/commands.md has the texts, and test/docs.test.ts compares them. */

/** The text of `--help` or `--help-all`, and the words that it is made of. */
function shown(name: string, option?: '--help-all'): string {
  const command = leavesOf(policysync(process)).find((each) => fullName(each) === name);
  assert(command);
  if (option === undefined) return helpText(command).replaceAll('```', '');
  let text = '';
  command.exitOverride().configureOutput({
    writeOut: (part) => {
      text += part;
    },
    getOutHelpWidth: () => 80,
    getOutHasColors: () => false,
  });
  assert.throws(() => command.parse([option], { from: 'user' }), { code: 'commander.help', exitCode: 0 });
  return text;
}

/** What docs/reference/commands.md says of a command beside its help. */
function proseOf(name: string): string {
  const [, section = ''] = read('docs/reference/commands.md').split(`\n## ${name}\n`);
  return (section.split('\n## ')[0] ?? '').replace(/<!-- help[\s\S]*?<!-- end -->/g, '');
}

function assertNames(text: string, names: readonly string[]): void {
  assert.deepEqual(
    names.filter((name) => !text.includes(`\`${name}\``)),
    [],
  );
}

const NAMES = leavesOf(policysync(process)).map(fullName);
const FLAG = /^ {2}(?:-\w, )?--([a-z-]+)/gm;

it('the table of exit codes has those of signals, too', () => {
  const [, table = ''] = /<!-- exit codes -->([\s\S]*?)<!-- end -->/.exec(read('docs/reference/commands.md')) ?? [];
  const codes = [...table.matchAll(/^\| (\d+) /gm)].map(([, code]) => Number(code));
  assert.deepEqual(codes, [0, 1, 2, 3, 4, 5, 6, 130, 143]);
  assert.match(table, /^\| 2 .*`init`.*cancelled/m);
});

describe('help', () => {
  it('fits 80 columns and splits no word, in each command and with all settings', () => {
    assert(NAMES.length > 8);
    const texts = [
      ...NAMES.map((name) => [name, shown(name)] as const),
      ...['server', 'client'].map((name) => [name, shown(`policysync ${name}`, '--help-all')] as const),
    ];
    const long = texts.flatMap(([name, text]) =>
      text
        .split('\n')
        .filter((line) => line.length > 80)
        .map((line) => `${name}: ${line}`),
    );
    assert.deepEqual(long, []);
    // No line is that of a word that a terminal would have to break, so each word stands whole in one line.
    const words = new Set(texts.flatMap(([, text]) => text.split(/\s+/)));
    const descriptions = Object.values({ ...serverProgram(process).settings, ...clientProgram(process).settings });
    for (const { description } of descriptions)
      for (const word of description.split(/\s+/)) assert(words.has(word), `${word} is split`);
  });

  it('of a program shows ten settings in groups, and all of them when asked', () => {
    for (const [name, { settings, essential }] of [
      ['server', serverProgram(process)],
      ['client', clientProgram(process)],
    ] as const) {
      const essentials = Object.values<readonly string[]>(essential).flat();
      assert.equal(essentials.length, 10);
      const short = shown(`policysync ${name}`);
      const flags = [...short.matchAll(FLAG)].map(([, flag]) => flag ?? '');
      const ofSettings = flags.filter((flag) => !['print-config', 'config', 'help-all', 'help'].includes(flag));
      assert.equal(ofSettings.length, 10, ofSettings.join(' '));
      for (const heading of Object.keys(essential)) assert.match(short, new RegExp(`^${heading}:$`, 'm'));
      assert(short.split('\n').length < 60);

      const all = [...shown(`policysync ${name}`, '--help-all').matchAll(FLAG)].map(([, flag]) => flag ?? '');
      assert.equal(new Set(all).size, all.length);
      assert(all.length >= Object.keys(settings).length);
      for (const { group } of Object.values(settings))
        assert(shown(`policysync ${name}`, '--help-all').includes(`\n${group}:\n`), group);
    }
  });

  it('of a command with commands puts `help` into no group of the program', () => {
    const commands = policysync(process).commands.filter(({ commands: within }) => within.length > 0);
    assert.deepEqual(commands.map((command) => command.name()).sort(), ['config', 'opa']);
    for (const command of commands) {
      const text = helpText(command);
      assert.doesNotMatch(text, /Set up/);
      assert.match(text, /^Commands:\n(?:.*\n)*? {2}help \[command\]/m);
    }
  });

  it('of a command with --json has beside it, on the page, what that prints', () => {
    const silent = leavesOf(policysync(process))
      .filter(({ options }) => options.some(({ long }) => long === '--json'))
      .map(fullName)
      .filter((name) => !proseOf(name).includes('`--json`'));
    assert.deepEqual(silent, []);
    const { settings } = serverProgram(process);
    const loaded = readSettings(settings, { env: { SYNC_AUTH_MASTER_TOKEN: 'x' } });
    const printed = JSON.parse(configJson([{ section: 'server', settings, loaded }])) as { settings: object[] };
    const members = printed.settings.flatMap((one) => Object.keys(one));
    assertNames(proseOf('policysync config print'), [...new Set(members), 'from', 'path', 'line', 'secret_file']);
    assertNames(proseOf('policysync clients'), Object.keys(clientAnswer.shape));
  });

  it('has short placeholders', () => {
    for (const name of ['server', 'client']) {
      const terms = [...shown(`policysync ${name}`, '--help-all').matchAll(/^ {2}--\S+ ?(<[^>]*>|\[[^\]]*\])?/gm)];
      const long = terms.map(([, form = '']) => form).filter((form) => form.length > 26 || /[{}"]/.test(form));
      assert.deepEqual(long, []);
    }
  });
});
