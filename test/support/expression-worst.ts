import { cpuTimer } from './cpu-time.js';

/**
 * Texts that a regular expression takes long over, made from the expression itself: each part that may repeat is repeated, after what has
 * to stand before it and before something that fits nothing.
 */

/** A text is `before`, then `unit` again and again, then `after`. */
interface Worst {
  readonly before: string;
  readonly unit: string;
  readonly after: string;
}

type Node =
  | { readonly kind: 'characters'; readonly samples: readonly string[] }
  | { readonly kind: 'group'; readonly isLook: boolean; readonly alternatives: readonly (readonly Item[])[] }
  | { readonly kind: 'nothing' };

interface Item {
  readonly node: Node;
  readonly isUnbounded: boolean;
  readonly isOptional: boolean;
}

/** Repetitions beyond this count as unbounded. */
const MANY = 500;
/** Characters that are tried first as an example of a set; whatever else it has comes after. */
const EXAMPLES = [
  ...[...'a0 /-.:"\\\n\tAZ,=;|[({@%~_+#&<*?!\'`$^)]}>'],
  ...Array.from({ length: 0x180 }, (_, code) => String.fromCharCode(code)),
  ...['\u2028', '\u200b', '\ud800', '\ud83d\ude00'],
];
/** Ends that make a match fail, or that go on with something else. */
const ENDS = ['', '\u0001', '\n!'];
/** Most texts of one expression. */
const MOST = 150;

/** The parts of an expression. Throws for what it does not know. */
class Pattern {
  readonly #pattern: string;
  readonly #flags: string;
  #at = 0;

  constructor(pattern: string, flags: string) {
    this.#pattern = pattern;
    this.#flags = flags.replace(/[gy]/g, '');
  }

  parse(): Node {
    const node = this.#group(false);
    if (this.#at < this.#pattern.length) throw new Error(`unread: ${this.#pattern.slice(this.#at)}`);
    return node;
  }

  #group(isLook: boolean): Node {
    const alternatives: Item[][] = [[]];
    for (;;) {
      const next = this.#pattern.charAt(this.#at);
      if (next === '' || next === ')') return { kind: 'group', isLook, alternatives };
      if (next === '|') {
        this.#at++;
        alternatives.push([]);
      } else alternatives.at(-1)?.push(this.#item());
    }
  }

  #item(): Item {
    const node = this.#node();
    const quantifier = this.#take(/[*+?]\??|\{\d+(?:,\d*)?\}\??/y);
    if (quantifier === undefined) return { node, isUnbounded: false, isOptional: false };
    const [, least = '0', most] = /^\{(\d+),?(\d*)/.exec(quantifier) ?? [];
    const isUnbounded = /^[*+]|^\{\d+,\}/.test(quantifier) || Number(most || least) > MANY;
    return { node, isUnbounded, isOptional: /^[*?]/.test(quantifier) || (most !== undefined && Number(least) === 0) };
  }

  #node(): Node {
    const look = this.#take(/\(\?<?[=!]/y);
    if (look !== undefined || this.#take(/\((?:\?:|\?<\w+>)?/y) !== undefined) {
      const group = this.#group(look !== undefined);
      if (this.#take(/\)/y) === undefined) throw new Error(`no end of a group: ${this.#pattern}`);
      return group;
    }
    if (this.#take(/[\^$]|\\[bB]|\\[1-9]|\\k<\w+>/y) !== undefined) return { kind: 'nothing' };
    const set = this.#take(
      /\[(?:\\.|[^\]\\])*\]|\\p\{[^}]+\}|\\P\{[^}]+\}|\\u\{[^}]+\}|\\u[\da-fA-F]{4}|\\x[\da-fA-F]{2}|\\c.|\\.|[^\\]/suy,
    );
    if (set === undefined) throw new Error(`not understood: ${this.#pattern.slice(this.#at)}`);
    const one = new RegExp(`^(?:${set})$`, this.#flags);
    const fitting = EXAMPLES.filter((example) => one.test(example));
    return { kind: 'characters', samples: [...new Set(fitting)].slice(0, 3) };
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#pattern)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }
}

/** A short text that fits; with everything optional or without. */
function exampleOf(items: readonly Item[], isFull: boolean): string {
  return items
    .map(({ node, isOptional }) => {
      if (node.kind === 'nothing' || (isOptional && !isFull)) return '';
      if (node.kind === 'characters') return node.samples[0] ?? '';
      return node.isLook ? '' : exampleOf(node.alternatives[0] ?? [], isFull);
    })
    .join('');
}

/** What one repetition may be. */
function unitsOf(node: Node): string[] {
  if (node.kind === 'nothing') return [];
  if (node.kind === 'characters') return [...node.samples];
  const units = node.alternatives.flatMap((items) => [
    ...[true, false].map((isFull) => exampleOf(items, isFull)),
    ...(items.length === 1 && items[0] !== undefined ? unitsOf(items[0].node) : []),
  ]);
  return [...new Set(units)];
}

/**
 * Whether the form alone forbids unbounded text. A group that repeats without bound: V8 keeps a place for each repetition, has room for
 * some millions, and then throws. A look around that repeats without bound: versions of V8 differ in how often they look.
 */
export function needsBound(pattern: string, flags: string): boolean {
  const within = (node: Node, isBelowLook: boolean): boolean => {
    if (node.kind !== 'group') return false;
    const isInLook = isBelowLook || node.isLook;
    return node.alternatives.some((items) =>
      items.some(
        (item) => (item.isUnbounded && (isInLook || item.node.kind === 'group')) || within(item.node, isInLook),
      ),
    );
  };
  return within(new Pattern(pattern, flags).parse(), false);
}

/** The texts, without their lengths. */
export function worstOf(pattern: string, flags: string): Worst[] {
  const root = new Pattern(pattern, flags).parse();
  const found = new Map<string, Worst>();
  const add = (before: string, unit: string): void => {
    if (unit === '') return;
    for (const after of ENDS) {
      const one = { before, unit, after };
      found.set(JSON.stringify(one), one);
    }
  };
  const visit = (node: Node, before: readonly string[]): void => {
    if (node.kind === 'characters') for (const sample of node.samples) add('', sample);
    if (node.kind !== 'group') return;
    for (const items of node.alternatives) {
      for (const [index, item] of items.entries()) {
        const heads = [true, false].flatMap((isFull) => {
          const head = exampleOf(items.slice(0, index), isFull);
          return before.map((text) => text + head);
        });
        const all = [...new Set(heads)].slice(0, 4);
        if (item.isUnbounded) {
          for (const unit of unitsOf(item.node)) {
            for (const head of all) {
              add(head, unit);
              add('', head + unit);
            }
          }
        } else for (const head of all) add('', head);
        visit(item.node, all);
      }
    }
  };
  visit(root, ['']);
  return [...found.values()].slice(0, MOST);
}

/** Lengths that are tried before 64 KB: what grows with a power of the length, or faster, is seen before it takes for ever. */
const SHORT = [16, 20, 24, 28, 32, 64, 128, 256, 512, 1024, 4096] as const;
/** The length that counts, and one on the way. */
const LONG = [16_384, 65_536] as const;
/** Processor time that a short text may take; in proportion to it, it takes a hundredth. */
const MOST_SHORT_MS = 10;
/** Below this time nothing is said of the whole length. */
const NOTICED_MS = 5;
/** No collector takes so long. */
const DECIDED_MS = 100;
/** How much longer four times the text may take: in proportion 4, by the square 16. */
const MOST_RATIO = 8;

/** An expression that takes too long over a text of at most 64 KB. */
export interface Slow {
  readonly text: string;
  readonly length: number;
  readonly ms: number;
}

/** Applies the expression to its worst texts, at every place in each; the first that it takes too long over. */
export function slowText(pattern: string, flags: string): Slow | undefined {
  const expression = new RegExp(pattern, flags.includes('g') || flags.includes('y') ? flags : `${flags}g`);
  for (const worst of worstOf(pattern, flags)) {
    const slow = (length: number, ms: number): Slow => {
      const text = textOf(worst, length);
      return { text: JSON.stringify(`${text.slice(0, 30)}...${text.slice(-5)}`), length, ms };
    };
    for (const length of SHORT) {
      const ms = timeOf(expression, textOf(worst, length), MOST_SHORT_MS);
      if (ms > MOST_SHORT_MS) return slow(length, ms);
    }
    for (const length of LONG) {
      const ms = timeOf(expression, textOf(worst, length), NOTICED_MS);
      if (ms > NOTICED_MS && ms > MOST_RATIO * timeOf(expression, textOf(worst, length / 4), 0))
        return slow(length, ms);
      // The next length is four times this one: with a time that grows with the cube it is not noticed there either.
      if (ms < NOTICED_MS / 64) break;
    }
  }
  return undefined;
}

function textOf({ before, unit, after }: Worst, length: number): string {
  const count = Math.max(1, Math.floor((length - before.length - after.length) / unit.length));
  return `${before}${unit.repeat(count)}${after}`;
}

/** Processor time in milliseconds; the least of a few, unless the first decides: the collector may have been at work. */
function timeOf(expression: RegExp, text: string, enough: number): number {
  let least = once(expression, text);
  for (let run = 0; run < 2 && least > enough && least < DECIDED_MS; run++)
    least = Math.min(least, once(expression, text));
  return least;
}

function once(expression: RegExp, text: string): number {
  const elapsed = cpuTimer();
  expression.lastIndex = 0;
  text.replace(expression, '');
  return elapsed();
}
