import { relative } from 'node:path';
import { spec } from 'node:test/reporters';

/**
 * Shows where a long run is: a line for each file that has ended, a failure at once, and at the end the failures in full, what was
 * skipped and why, and the runner's own totals. Files that share a process are one line.
 */
export class Progress {
  #build;
  #expected;
  #print;
  #startMs = performance.now();
  #done = new Set();
  #failures = [];
  #skipped = new Map();
  #totals = [];
  #printed = new Map();
  /** Milliseconds of the tests of each file. */
  #spent = new Map();

  /** `seconds`: what each file may take, by its path; `build`: the folder that paths are shown from. */
  constructor({ build, seconds, print }) {
    this.#build = build;
    this.#expected = seconds;
    this.#print = print;
  }

  /** Takes an event of the runner. */
  on({ type, data }) {
    if (type === 'test:complete') this.#completed(data);
    else if (type === 'test:fail') this.#failures.push(data);
    else if (type === 'test:pass') this.#passed(data);
    else if (type === 'test:stdout' || type === 'test:stderr') this.#keep(data);
    else if (type === 'test:diagnostic' && data.nesting === 0 && /^[a-z_]+ [\d.]+$/.test(data.message))
      this.#totals.push(data.message);
  }

  /** Prints what there is to say at the end. */
  async end() {
    if (this.#failures.length > 0) {
      const reporter = new spec();
      for (const data of this.#failures) reporter.write({ type: 'test:fail', data });
      reporter.end();
      for await (const text of reporter) this.#print(String(text).trimEnd());
      // A file that failed as a whole has said why on its own.
      for (const { name } of this.#failures)
        for (const text of this.#printed.get(name) ?? []) this.#print(text.trimEnd());
    }
    if (this.#skipped.size > 0) {
      this.#print('\nSkipped, and why:');
      for (const [reason, names] of this.#skipped) {
        const [first] = names;
        this.#print(`  ${names.length === 1 ? first : `${names.length} tests, such as "${first}"`}: ${reason}`);
      }
    }
    this.#print(`\n${this.#totals.map((line) => `ℹ ${line}`).join('\n')}`);
  }

  /** Seconds that the tests of each file took. */
  seconds() {
    return Object.fromEntries([...this.#spent].map(([file, ms]) => [this.#nameOf(file), Math.round(ms / 100) / 10]));
  }

  #completed({ name, nesting, file, details }) {
    if (nesting !== 0) return;
    if (!this.#expected.has(name)) {
      if (file !== undefined) this.#spent.set(file, (this.#spent.get(file) ?? 0) + (details?.duration_ms ?? 0));
      return;
    }
    this.#done.add(name);
    if (!name.includes('groups')) this.#spent.set(name, details?.duration_ms ?? 0);
    const left = [...this.#expected].filter(([path]) => !this.#done.has(path)).reduce((sum, [, of]) => sum + of, 0);
    const spent = (performance.now() - this.#startMs) / 1000;
    const whole = [...this.#expected.values()].reduce((sum, of) => sum + of, 0);
    // What is left takes as long as what is done did, measured by what both may take.
    const about = whole === left ? 0 : (spent * left) / (whole - left);
    const place = `${this.#done.size} of ${this.#expected.size}`;
    const took = Math.round((details?.duration_ms ?? 0) / 1000);
    const rest = left === 0 ? '' : `, about ${clock(about)} left`;
    this.#print(`${clock(spent).padStart(5)}${rest}  (${place})  ${this.#nameOf(name)}, ${took} s`);
  }

  #passed({ name, skip, file }) {
    if (skip === undefined || skip === false) return;
    const reason = typeof skip === 'string' && skip !== '' ? skip : `no reason is given, in ${this.#nameOf(file)}`;
    this.#skipped.set(reason, [...(this.#skipped.get(reason) ?? []), name]);
  }

  #keep({ file, message }) {
    this.#printed.set(file, [...(this.#printed.get(file) ?? []), message]);
  }

  #nameOf(file) {
    return relative(this.#build, file).replace(/\.test\.js$/, '');
  }
}

function clock(seconds) {
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, '0')}`;
}
