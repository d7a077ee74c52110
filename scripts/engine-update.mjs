// Updates OPA: the pinned program of the inline engine, and the embedded engine.
//
//   npm run engine:update -- 1.22.0
//   npm run engine:update -- latest             the newest release; nothing where that is the pinned one
//   npm run engine:update -- 1.22.0 --quick     with a larger artifact, to try it
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pinnedAssets, publishedSums, withPinnedOpa } from './lib/engine-pin.mjs';
import { checkGo, go } from './lib/engine-wasm.mjs';
import { Fatal, main, run } from './lib/run.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const ENGINE = join(ROOT, 'engine');
const PINS = join(ROOT, 'src', 'client', 'engine', 'get-opa', 'opa-version.ts');
const OPA = 'github.com/open-policy-agent/opa';

function options(args) {
  const flags = args.filter((arg) => arg.startsWith('-'));
  const [version = '', ...more] = args.filter((arg) => !arg.startsWith('-'));
  if (flags.some((flag) => flag !== '--quick') || more.length > 0 || !/^(\d+\.\d+\.\d+|latest)$/.test(version)) {
    throw new Fatal('Give one version of OPA, or "latest": npm run engine:update -- 1.22.0 [--quick]');
  }
  return { version, flags };
}

/** Sets version and sums of the pinned program. Returns the assets whose sums have to be set by hand. */
async function updatePins(version) {
  const source = readFileSync(PINS, 'utf8');
  const baseUrl = /^export const OPA_DOWNLOAD_BASE_URL = '(.*)';$/m.exec(source)[1];
  const assets = pinnedAssets(source);
  const sums = await publishedSums(assets, baseUrl, version);
  writeFileSync(PINS, withPinnedOpa(source, version, sums));
  return assets.filter((asset) => sums[asset] === undefined);
}

/** The newest release that Go's modules have. */
async function newest() {
  const version = await go(ENGINE, ['list', '-m', '-f', '{{.Version}}', `${OPA}@latest`]);
  return version.trim().replace(/^v/, '');
}

await main(async () => {
  const { version: asked, flags } = options(process.argv.slice(2));
  await checkGo(ENGINE);
  const version = asked === 'latest' ? await newest() : asked;
  if (asked === 'latest' && readFileSync(PINS, 'utf8').includes(`'${version}'`)) {
    console.log(`OPA ${version} is the newest release, and the pinned one.`);
    return 0;
  }
  console.log(`engine/go.mod: OPA ${version}`);
  await go(ENGINE, ['get', `${OPA}@v${version}`]);
  await go(ENGINE, ['mod', 'tidy']);
  const missing = await updatePins(version);
  const cases = await run(process.execPath, [join(ROOT, 'scripts', 'engine-cases.mjs')], { cwd: ROOT });
  if (cases !== 0) throw new Fatal('The conformance cases were not packed; see above.');
  const code = await run(process.execPath, [join(ROOT, 'scripts', 'engine-build.mjs'), ...flags], { cwd: ROOT });
  if (code !== 0) throw new Fatal('The engine was not built; see above. Nothing of the update is undone.');
  console.log(`
OPA is ${version} now. Before it is committed:
- compare the sums of ${PINS} with those that a second, independent project has recorded;
- npm test: the conformance suite names every case whose answer has changed, test/docs.test.ts each sample of the old version;
- a line in CHANGELOG.md.`);
  if (missing.length > 0) {
    throw new Fatal(`The sums of these could not be had; set them by hand in ${PINS}: ${missing.join(', ')}`);
  }
  return 0;
});
