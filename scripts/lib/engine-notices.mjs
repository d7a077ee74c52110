import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { go } from './engine-wasm.mjs';

const LICENCE_FILE = /^(licen[cs]e|notice|copying|patents)/i;

/** The Go modules of the program, by path: version, folder, and the folders of their packages that are in it. */
async function modulesOf(folder) {
  const format = '{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}';
  const lines = (await go(folder, ['list', '-deps', '-f', format, '.'])).split('\n').filter((line) => line !== '');
  const modules = new Map();
  for (const line of lines) {
    const [path, version, dir, packageDir] = line.split('\t');
    if (!modules.has(path)) modules.set(path, { path, version, dir, packages: new Set() });
    modules.get(path).packages.add(packageDir);
  }
  return [...modules.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** The licence files of a module: at its root, and beside its packages. */
function licencesOf({ dir, packages }) {
  const folders = new Set();
  for (const start of packages) {
    for (let at = start; at.startsWith(dir); at = dirname(at)) folders.add(at);
  }
  return [...folders].sort().flatMap((at) =>
    readdirSync(at, { withFileTypes: true })
      .filter((file) => file.isFile() && LICENCE_FILE.test(file.name) && !file.name.endsWith('.go'))
      .map((file) => join(at, file.name)),
  );
}

/** The texts that come with the program: `NOTICE` says what it is made of, `LICENSES.txt` has every licence in full. */
export async function notices(folder) {
  const modules = await modulesOf(folder);
  const goVersion = await go(folder, ['env', 'GOVERSION']);
  const goRoot = await go(folder, ['env', 'GOROOT']);
  const parts = [
    {
      title: `The Go Programming Language ${goVersion} (standard library, wasm_exec.js)`,
      files: [join(goRoot, 'LICENSE'), join(goRoot, 'PATENTS')],
      dir: goRoot,
    },
    ...modules.map((one) => ({ title: `${one.path} ${one.version}`, files: licencesOf(one), dir: one.dir })),
  ];
  const missing = parts.filter(({ files }) => files.length === 0).map(({ title }) => title);
  if (missing.length > 0) throw new Error(`no licence file was found for: ${missing.join(', ')}`);
  const rule = '='.repeat(80);
  const licences = parts.map(({ title, files, dir }) =>
    files
      .filter((file) => existsSync(file))
      .map(
        (file) =>
          `${rule}\n${title}\n${relative(dir, file).replaceAll('\\', '/')}\n\n${readFileSync(file, 'utf8').trim()}\n`,
      )
      .join('\n'),
  );
  const notice = [
    'opa.wasm.br is a program built from the Go source of the folder engine of PolicySync, from Open Policy Agent',
    '(https://www.openpolicyagent.org, Copyright The OPA Authors, Apache License 2.0), and from the Go modules below, none of',
    'which is changed. wasm_exec.js is part of the Go distribution, unchanged. LICENSES.txt has the licence of each.',
    '',
    ...parts.map(({ title }) => `- ${title}`),
    '',
  ].join('\n');
  return { notice, licences: licences.join('\n') };
}
