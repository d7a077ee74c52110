import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

/**
 * Prints where the time of a CPU profile (`npm run bench -- --profile <folder>`) goes, in three lists: own time by place (package,
 * module), own time by function, and for functions of ours the time with all that they call. Idle time is left out.
 *
 *   node build/bench/profile.js <file.cpuprofile> [--skip-ms 3000] [--lines 25]     skip: the start of the program
 */
interface Profile {
  readonly nodes: readonly {
    readonly id: number;
    readonly children?: readonly number[];
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
  }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

const { values, positionals } = parseArgs({
  options: { 'skip-ms': { type: 'string', default: '0' }, lines: { type: 'string', default: '25' } },
  allowPositionals: true,
});
const { nodes, samples, timeDeltas } = JSON.parse(readFileSync(positionals[0] ?? '', 'utf8')) as Profile;
const skipUs = Number(values['skip-ms']) * 1000;
const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])));
const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));

const places = new Map<string, number>();
const own = new Map<string, number>();
const whole = new Map<string, number>();
let atUs = 0;
let busyUs = 0;
for (const [index, id] of samples.entries()) {
  const us = timeDeltas[index] ?? 0;
  atUs += us;
  const frame = frames.get(id);
  if (atUs < skipUs || frame === undefined || frame.functionName === '(idle)') continue;
  busyUs += us;
  add(places, placeOf(frame.url) || frame.functionName, us);
  add(own, nameOf(id), us);
  const callers = new Set<string>();
  for (let at: number | undefined = id; at !== undefined; at = parents.get(at)) {
    if (placeOf(frames.get(at)?.url ?? '').startsWith('src/')) callers.add(nameOf(at));
  }
  for (const caller of callers) add(whole, caller, us);
}
console.log(`busy ${(busyUs / 1000).toFixed(0)} of ${((atUs - skipUs) / 1000).toFixed(0)} ms`);
print('own time by place', places);
print('own time by function', own);
print('functions of src/ with what they call', whole);

function nameOf(id: number): string {
  const frame = frames.get(id);
  if (frame === undefined) return '?';
  return `${frame.functionName || '(anonymous)'} ${placeOf(frame.url)}:${frame.lineNumber + 1}`;
}

/** `fastify`, `src/pubsub/hub`, `node:net`. */
function placeOf(url: string): string {
  if (!url.startsWith('file:')) return url;
  const path = fileURLToPath(url);
  const inPackage = path.lastIndexOf('/node_modules/');
  if (inPackage >= 0) return /^(@[^/]+\/)?[^/]+/.exec(path.slice(inPackage + '/node_modules/'.length))?.[0] ?? path;
  return /src\/.*(?=\.js$)/.exec(path)?.[0] ?? path;
}

function add(sums: Map<string, number>, key: string, us: number): void {
  sums.set(key, (sums.get(key) ?? 0) + us);
}

function print(title: string, sums: ReadonlyMap<string, number>): void {
  console.log(`\n${title}`);
  const sorted = [...sums].toSorted(([, a], [, b]) => b - a).slice(0, Number(values.lines));
  for (const [name, us] of sorted) console.log(`${((100 * us) / busyUs).toFixed(1).padStart(5)} %  ${name}`);
}
