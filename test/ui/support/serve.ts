/**
 * Serves the page with a scenario, for people who work on it:
 *
 *   npx tsc -p tsconfig.json --outDir build --tsBuildInfoFile build/.tsbuildinfo
 *   node build/test/ui/support/serve.js --scenario converging [--port 7099]
 *   node build/test/ui/support/serve.js --list
 *
 * With `--out <file.png>` it takes a picture instead and ends:
 *
 *   node build/test/ui/support/serve.js --scenario converging --at '#/changes' --width 360 --theme dark --out /tmp/changes.png
 *
 * It prints what the console of the page says. `--at '#/clients/*'` is the first client that needs a look. `--whole` takes the whole
 * page; `--keys 'j j Enter'` presses keys first.
 */
import { parseArgs } from 'node:util';
import { builtPage } from './built-page.js';
import { startFixture } from './fixture-server.js';
import { SCENARIOS, type ScenarioName } from './scenarios.js';
import { takePicture } from './take-picture.js';

const { values } = parseArgs({
  options: {
    scenario: { type: 'string', default: 'converging' },
    port: { type: 'string', default: '0' },
    list: { type: 'boolean', default: false },
    at: { type: 'string', default: '#/fleet' },
    width: { type: 'string', default: '1440' },
    height: { type: 'string', default: '900' },
    theme: { type: 'string', default: 'light' },
    whole: { type: 'boolean', default: false },
    keys: { type: 'string', default: '' },
    out: { type: 'string' },
  },
});

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

function isScenario(name: string): name is ScenarioName {
  return name in SCENARIOS;
}

async function main(): Promise<void> {
  if (values.list || !isScenario(values.scenario)) {
    for (const [name, { about }] of Object.entries(SCENARIOS)) print(`${name.padEnd(12)} ${about}`);
    return;
  }
  const server = await startFixture(await builtPage(), values.scenario, { port: Number(values.port) });
  if (values.out === undefined) {
    print(`${SCENARIOS[values.scenario].about}: ${server.url}/ui (Ctrl-C ends it)`);
    return;
  }
  const said = await takePicture(server, {
    at: values.at,
    width: Number(values.width),
    height: Number(values.height),
    theme: values.theme === 'dark' ? 'dark' : 'light',
    whole: values.whole,
    keys: values.keys.split(' ').filter((key) => key !== ''),
    file: values.out,
  });
  for (const line of said) print(line);
  await server[Symbol.asyncDispose]();
}

await main();
