import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { storyStep } from '../support/datadriven.js';
import { Story } from '../support/story.js';

/** What is printed and said of a client after all of these steps. */
interface Told {
  readonly lines: readonly string[];
  readonly said: Readonly<Record<string, string>>;
}

type Step = string | readonly [command: string, ...input: string[]];

const ENGINES = ['bundle', 'modules'] as const;

async function told(start: string, steps: readonly Step[]): Promise<Told> {
  await using story = new Story(storyStep(start).named);
  const lines: string[] = [];
  for (const step of steps) {
    const [command = '', ...input] = typeof step === 'string' ? [step] : step;
    lines.push(...(await story.take(storyStep(command, input))));
  }
  return { lines, said: Object.fromEntries(story.said) };
}

function* permutations<T>(items: readonly T[]): Generator<readonly T[]> {
  if (items.length === 0) yield [];
  for (const [index, item] of items.entries()) {
    for (const rest of permutations(items.toSpliced(index, 1))) yield [item, ...rest];
  }
}

const RULES = ['/app/allow', '/app/denied'];

/** Documents that everything else needs. */
const NEEDED = ['/users', '/teams', '/s '];

/**
 * What would decide wrongly for a moment: documents in the place of a rule before there is a policy, and policies before documents of the first
 * load, at a start and whenever the engine was emptied.
 */
function undecided(lines: readonly string[]): string[] {
  let hasPolicy = false;
  return lines.filter((line) => {
    if (line === 'engine: begin to fill') hasPolicy = false;
    hasPolicy ||= line.startsWith('engine: policy');
    const isNamed = (place: string): boolean => line.startsWith('engine: put') && line.includes(place);
    return (hasPolicy ? NEEDED : RULES).some(isNamed);
  });
}

describe('a client that starts', () => {
  /** Documents in the place of a rule, in its package and elsewhere, of each origin. */
  const BEFORE: readonly Step[] = [
    ['base', 'PUT /app/allow true', 'PUT /users from users'],
    ['publish', 'PUT /app/denied true', 'PUT /teams {"a":1}'],
    ['commit c1', 'app.rego package app; allow := false; denied := 1', 's/data.json {"s":1}'],
    'hold policy',
    'hold base',
    'hold updates',
    'connect',
  ];
  const ARRIVALS = {
    policy: 'release policy',
    base: 'release base',
    updates: 'release updates',
    source: 'answer users {"ann":1}',
    notice: ['publish', 'PUT /app/other 1', 'PUT /app/denied false'],
  } satisfies Record<string, Step>;
  type Arrival = keyof typeof ARRIVALS;

  for (const engine of ENGINES) {
    it(`is ready, and holds and lists the same, whatever arrives first (${engine})`, async () => {
      let first: Told['said'] | undefined;
      // A source is asked once its entry is known.
      const orders = [...permutations(Object.keys(ARRIVALS) as Arrival[])].filter(
        (order) => order.indexOf('source') > order.indexOf('base'),
      );
      for (const [index, order] of orders.entries()) {
        // The engine restarts at each point of some of them.
        const steps: Step[] = order.map((one) => ARRIVALS[one]);
        steps.splice(index % (steps.length + 1), 0, 'engine restarts');
        const { lines, said } = await told(`start engine=${engine}`, [...BEFORE, ...steps, 'wait 10s']);
        const what = JSON.stringify(steps);
        assert.deepEqual(undecided(lines), [], what);
        const failed = lines.filter((line) => line.startsWith('failed: initial-load'));
        assert.deepEqual(failed, [], what);
        const { 'position: ': position, ...rest } = said;
        // Who has learned of the third update knows that the engine holds neither it nor what has replaced a part of it.
        const hasThird = order.indexOf('updates') < order.indexOf('notice');
        assert.equal(position, hasThird ? '4 of one, without 3, 4' : '4 of one, without 4', what);
        first ??= rest;
        assert.deepEqual(rest, first, what);
      }
      assert.equal(first?.['state: '], 'ready, not healthy');
      assert.equal(first['holds: '], '{"app":{"other":1},"s":{"s":1},"teams":{"a":1},"users":{"ann":1}}');
      assert.deepEqual(
        Object.keys(first)
          .filter((what) => what.startsWith('withheld'))
          .sort(),
        ['withheld /app/allow: ', 'withheld /app/denied: '],
      );
    });
  }
});

describe('a commit that cannot be used', () => {
  const COMMITS = {
    good: ['a.rego package a; x := 1'],
    broken: ['a.rego package a; x := unknown(1)'],
    colliding: ['a.rego package a; x := 2', 'a/data.json {"x":3}'],
    // Of the same content as the good one.
    renamed: ['a.rego package a; x := 1'],
  };
  type Commit = keyof typeof COMMITS;
  const NAMES = Object.keys(COMMITS) as Commit[];
  const WAYS: Readonly<Record<string, readonly Step[]>> = {
    notice: [],
    heartbeat: ['heartbeat'],
    reconnect: ['disconnect', 'connect'],
  };
  const BETWEEN: readonly (readonly Step[])[] = [[], ['engine restarts'], ['refetch'], ['engine unreachable']];

  const come = (name: Commit, how: string): Step => [`commit ${name}${how}`, ...COMMITS[name]];

  for (const engine of ENGINES) {
    it(`leaves no trace once the server has gone back, however the client hears of that (${engine})`, async () => {
      const bad = ['broken', 'colliding'] as const;
      const ways = Object.keys(WAYS);
      const all = ways.flatMap((way) => bad.flatMap((first) => NAMES.map((then) => ({ way, first, then }))));
      for (const [index, { way, first, then }] of all.entries()) {
        const steps: Step[] = [
          come('good', ''),
          'connect',
          ['publish', 'PUT /a/y 1'],
          come(first, ''),
          ...(BETWEEN[index % BETWEEN.length] ?? []),
          come(then, ''),
          come('good', way === 'notice' ? '' : ' lost'),
          ...(WAYS[way] ?? []),
          'wait 10s',
        ];
        const { said } = await told(`start engine=${engine}`, steps);
        const what = JSON.stringify(steps);
        assert.equal(said['state: '], 'ready, healthy', what);
        assert.equal(said['policy refused: '], undefined, what);
        assert.equal(said['holds: '], '{"a":{"y":1}}', what);
      }
    });
  }
});
