import type { Setting } from '../../src/lib/settings/setting.js';
import { FLAG_WORDS } from '../../src/lib/settings/setting-kinds.js';
import { jsonSchemaOf } from '../../src/wire/lists.js';

type JsonObject = Record<string, unknown>;

/** What YAML reads as something else than a text, and the program takes as it is written: `1.10`, `true`. */
const SCALARS = ['string', 'number', 'boolean'];
/** Any text, number or boolean. */
export const ANY_SCALAR: JsonObject = { type: SCALARS, minLength: 1 };
/** A number in quotes; the program checks its bounds. */
const NUMBER_TEXT: JsonObject = {
  type: 'string',
  pattern: '^\\s*[+-]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][+-]?\\d+)?\\s*$',
};

/** The JSON Schema of the values that a setting takes in the configuration file. The form that editors should offer comes first. */
export function valueForms({ domain, form: forPeople }: Setting<unknown>): JsonObject {
  switch (domain.kind) {
    case 'text':
      return domain.format === undefined ? ANY_SCALAR : { type: 'string', minLength: 1, format: domain.format };
    case 'number': {
      const { min, max } = domain;
      const bounds = { minimum: min, ...(max < Number.MAX_SAFE_INTEGER && { maximum: max }) };
      return { anyOf: [{ type: domain.integer ? 'integer' : 'number', ...bounds }, NUMBER_TEXT] };
    }
    case 'flag':
      return { anyOf: [{ type: 'boolean' }, ...anyCase([...FLAG_WORDS.truthy, ...FLAG_WORDS.falsy], '\\s*')] };
    case 'choice': {
      const choices = { enum: [...new Set([...domain.choices.flatMap(choiceForms), ...booleansIn(domain.anyCase)])] };
      return domain.anyCase.length === 0 ? choices : { anyOf: [choices, ...anyCase(domain.anyCase)] };
    }
    case 'list':
      return { anyOf: [{ type: 'array', items: ANY_SCALAR }, ANY_SCALAR] };
    case 'json': {
      const { $schema, ...value } = jsonSchemaOf(domain.schema, { io: 'input', reused: 'inline', target: 'draft-7' });
      const text = domain.orText ? { minLength: 1, description: forPeople } : { pattern: '^\\s*[\\[{]' };
      return { anyOf: [value, { type: 'string', ...text }] };
    }
  }
}

/** Words that YAML reads as booleans. */
function booleansIn(words: readonly string[]): boolean[] {
  return words
    .map((word) => word.toLowerCase())
    .flatMap((word) => (/^(?:true|false)$/.test(word) ? [word === 'true'] : []));
}

/** The words true and false are written as booleans, too. */
function choiceForms(choice: string): unknown[] {
  return choice === 'true' || choice === 'false' ? [choice, choice === 'true'] : [choice];
}

/** Words in upper or lower case, and those of digits as numbers. `around`: what may stand around a word. */
function anyCase(words: readonly string[], around = ''): JsonObject[] {
  const pattern = words.map((word) =>
    word.replace(/[a-z]/gi, (letter) => `[${letter.toUpperCase()}${letter.toLowerCase()}]`),
  );
  const numbers = words.filter((word) => /^\d+$/.test(word)).map(Number);
  return [
    { type: 'string', pattern: `^${around}(?:${pattern.join('|')})${around}$` },
    ...(numbers.length === 0 ? [] : [{ enum: numbers }]),
  ];
}
