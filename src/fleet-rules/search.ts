import type { DataStanding, FleetRow, HealthStanding, PolicyStanding } from '../wire/fleet.js';
import { own } from './names-of-others.js';
import { needsLook, policyStateOf } from './rank.js';

/**
 * The search of the fleet: words that must all match. `-` negates, a comma is "or", quotes keep
 * spaces and commas. `app:billing`: the label `app` begins with "billing"; `behind:>1` counts
 * updates of data; `is:needing`: who needs a look; a word without a colon looks at id, address and
 * error.
 */

/** What `key:` of a word can be beside the labels of the fleet. */
const FIELDS = [
  'id',
  'state',
  'data',
  'health',
  'engine',
  'held',
  'instance',
  'topic',
  'behind',
  'error',
  'is',
  'label',
] as const;
export type SearchField = (typeof FIELDS)[number];
const isField = (text: string): text is SearchField => FIELDS.some((field) => field === text);

/** What `state:`, `data:` and `health:` know. */
const STATES = {
  state: Object.keys({
    acknowledged: true,
    told: true,
    not_told: true,
    refused: true,
    away: true,
    does_not_say: true,
    none: true,
  } satisfies Record<PolicyStanding, true>),
  data: Object.keys({
    at_head: true,
    behind: true,
    failing: true,
    blocked: true,
    away: true,
    does_not_say: true,
    none: true,
  } satisfies Record<DataStanding, true>),
  health: Object.keys({
    healthy: true,
    not_ready: true,
    unhealthy: true,
    new: true,
    was_healthy: true,
    was_unhealthy: true,
    does_not_say: true,
  } satisfies Record<HealthStanding, true>),
};

/** What a search needs to know beside the rows. */
export interface SearchOptions {
  /** The labels that are there. */
  readonly labels: ReadonlySet<string>;
  /** What people call an instance; both that and its id are found. */
  readonly instanceName?: (instance: string) => string;
}

export interface Search {
  readonly matches: (row: FleetRow) => boolean;
  /** What is wrong with a word, as sentences for people; such a word does not count. */
  readonly problems: readonly string[];
}

type Test = (row: FleetRow) => boolean;

interface Word {
  readonly text: string;
  readonly negated: boolean;
  /** What stands before the colon; null: there is none. */
  readonly key: string | null;
  readonly values: readonly string[];
}

/** Never fails: what it cannot read is in `problems`. */
export function parseSearch(text: string, options: SearchOptions): Search {
  const tests: Test[] = [];
  const problems: string[] = [];
  for (const word of wordsOf(text)) {
    const { test, problem } = testOf(word, options);
    if (problem !== undefined) problems.push(problem);
    if (test !== undefined) tests.push(word.negated ? (row) => !test(row) : test);
  }
  return { matches: (row) => tests.every((test) => test(row)), problems };
}

/** The word that finds the clients with this value of a label, such as `app:billing`. */
export function labelWord(label: string, value: string): string {
  return isField(label) ? `label:${quoted(`${label}=${value}`)}` : `${label}:${quoted(value)}`;
}

/** The word that finds the clients with this value of a field. */
export function fieldWord(field: SearchField, value: string): string {
  return `${field}:${quoted(value)}`;
}

/** The search without the words of `from`, and with `to`. Empty: nothing is added. */
export function swapWord(text: string, from: readonly string[], to: string): string {
  const kept = rawWords(text).filter((word) => word !== to && !from.includes(word));
  return [...kept, ...(to === '' ? [] : [to])].join(' ');
}

export function hasWord(text: string, word: string): boolean {
  return rawWords(text).includes(word);
}

function quoted(value: string): string {
  return /[\s,"]/.test(value) || value === '' ? `"${value.replaceAll('"', '')}"` : value;
}

/**
 * The words as they were typed: quotes keep their spaces; one that is not closed reaches to the
 * end.
 */
function rawWords(text: string): string[] {
  return text.match(/(?:"[^"]*(?:"|$)|[^\s"])+/g) ?? [];
}

/** A key as a label has it: an address, a URL and a path have colons, too, and are words. */
const KEY = /^([A-Za-z][\w./-]*):(?!\/\/)/;

function keyOf(raw: string): string | null {
  return KEY.exec(raw)?.[1] ?? null;
}

function wordsOf(text: string): Word[] {
  return rawWords(text).flatMap((raw) => {
    const negated = raw.startsWith('-') && raw.length > 1;
    const positive = negated ? raw.slice(1) : raw;
    const key = keyOf(positive);
    const values = valuesOf(key === null ? positive : positive.slice(key.length + 1));
    return values.length === 0 ? [] : [{ text: raw, negated, key, values }];
  });
}

/** The values between commas, without quotes. None: somebody is still typing. */
function valuesOf(text: string): string[] {
  return (text.match(/(?:"[^"]*(?:"|$)|[^,"])+/g) ?? [])
    .map((value) => plain(value.replaceAll('"', '')))
    .filter((value) => value !== '');
}

/** Case makes no difference. */
function plain(text: string): string {
  return text.trim().toLowerCase();
}

interface Read {
  readonly test?: Test;
  readonly problem?: string;
}

function testOf(word: Word, options: SearchOptions): Read {
  const { key, values } = word;
  const begins = (textOf: (row: FleetRow) => string): Test => {
    return (row) => {
      const text = plain(textOf(row));
      return values.some((value) => text.startsWith(value));
    };
  };
  if (key !== null && options.labels.has(key) && !isField(key)) {
    return { test: begins((row) => own(row.labels, key) ?? '') };
  }
  switch (key) {
    case null:
      return { test: anywhere(values) };
    case 'id':
      return { test: begins((row) => row.id) };
    case 'state':
      return inState(word, STATES.state, policyStateOf);
    case 'data':
      return inState(word, STATES.data, (row) => row.data.state);
    case 'health':
      return inState(word, STATES.health, (row) => row.health.state);
    case 'engine':
      return { test: engineTest(values) };
    case 'held':
      return { test: begins((row) => row.policy.held ?? '') };
    case 'instance': {
      const named = begins((row) => options.instanceName?.(row.instance) ?? row.instance);
      const byId = begins((row) => row.instance);
      return { test: (row) => named(row) || byId(row) };
    }
    case 'topic':
      return { test: (row) => row.topics.some((topic) => values.some((value) => plain(topic).startsWith(value))) };
    case 'error':
      return { test: (row) => values.some((value) => errorText(row).includes(value)) };
    case 'label':
      return { test: (row) => values.some((value) => labelTexts(row).some((text) => text.startsWith(value))) };
    case 'behind':
      return behindTest(word);
    case 'is':
      return values.every((value) => value === 'needing')
        ? { test: needsLook }
        : { problem: `"${word.text}" does not count: only is:needing is known.` };
    default:
      return {
        test: anywhere(values.map((value) => `${plain(key)}:${value}`)),
        problem: unknownKey(key, word, options),
      };
  }
}

function unknownKey(key: string, word: Word, { labels }: SearchOptions): string {
  const known = [...labels].slice(0, 5).map((label) => `${label}:`);
  const also = known.length === 0 ? '' : ` Labels here: ${known.join(' ')}`;
  return `No client has the label "${key}": "${word.text}" is read as text.${also}`;
}

function anywhere(values: readonly string[]): Test {
  return (row) =>
    values.some(
      (value) => plain(row.id).includes(value) || plain(row.address).includes(value) || errorText(row).includes(value),
    );
}

/** `state:not-told`, `state:"not told"` and `state:not_told` are the same. */
function inState({ text, values }: Word, known: readonly string[], stateOf: (row: FleetRow) => string): Read {
  const wanted = values.map((value) => value.replaceAll(/[\s-]+/g, '_'));
  const unknown = wanted.find((value) => !known.some((state) => state.startsWith(value)));
  if (unknown !== undefined) return { problem: `"${text}" does not count: there are ${known.join(', ')}.` };
  return { test: (row) => wanted.some((value) => stateOf(row).startsWith(value)) };
}

/** `engine:opa`, `engine:"opa 1.22"` and `engine:1.22` all find "opa 1.22.0". */
function engineTest(values: readonly string[]): Test {
  return (row) => {
    const engine = ` ${plain(row.engine ?? '')}`;
    return values.some((value) => engine.includes(` ${value}`));
  };
}

/** Without quotes, as the values of a search are. */
function errorText({ error }: FleetRow): string {
  return error === null ? '' : plain(`${error.kind} ${error.place} ${error.text}`).replaceAll('"', '');
}

function labelTexts(row: FleetRow): string[] {
  return Object.entries(row.labels).map(([label, value]) => plain(`${label}=${value}`));
}

const COMPARE: Record<string, (a: number, b: number) => boolean> = {
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '': (a, b) => a === b,
};

function behindTest({ text, values }: Word): Read {
  const tests: ((behind: number) => boolean)[] = [];
  for (const value of values) {
    const [, sign = '', digits] = /^(>=?|<=?|)\s*(\d+)$/.exec(value) ?? [];
    const compare = COMPARE[sign];
    if (/^[<>]=?$/.test(value)) continue;
    if (digits === undefined || compare === undefined) {
      return { problem: `"${text}" does not count: behind: takes a number, such as behind:>1 or behind:0.` };
    }
    tests.push((behind) => compare(behind, Number(digits)));
  }
  if (tests.length === 0) return {};
  return {
    test: ({ data: { behind } }) => behind !== null && tests.some((test) => test(behind)),
  };
}
