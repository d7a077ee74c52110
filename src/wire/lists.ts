import * as z from 'zod';
import { isRecord } from '../lib/json/is-record.js';

/**
 * Lists and maps from outside. The number of elements is checked before any element, and reading
 * stops after {@link MAX_PROBLEMS} wrong ones: a million wrong elements cost little more than
 * twenty.
 */

/** Most problems that a response names. */
export const MAX_PROBLEMS = 20;

/** Elements of a list that nothing else bounds: more than any configuration has. */
export const MANY = 1_000_000;

type ListOf<T extends z.ZodType> = z.ZodPipe<z.ZodArray<z.ZodUnknown>, z.ZodTransform<z.output<T>[], unknown[]>>;
type DictOf<T extends z.ZodType> = z.ZodPipe<
  z.ZodCustom<Record<string, unknown>>,
  z.ZodTransform<Record<string, z.output<T>>, Record<string, unknown>>
>;

/** What code that describes or walks schemas reads of a schema of this module. */
export interface PlainForm {
  readonly kind: 'list' | 'dict';
  /** The same as an ordinary schema. */
  readonly schema: z.ZodType;
  readonly element: z.ZodType;
  readonly max: number;
}

const plainForms = new WeakMap<object, PlainForm>();

/** The ordinary form of a {@link list} or {@link dict}; undefined for every other schema. */
export function plainForm(schema: object): PlainForm | undefined {
  return plainForms.get(schema);
}

/**
 * A list of at most `max` elements; `empty`: the message for an empty one, if it must have
 * elements.
 */
export function list<T extends z.ZodType>(element: T, { max, empty }: { max: number; empty?: string }): ListOf<T> {
  const tooMany = `must be at most ${max}`;
  const bounded = z.array(z.unknown()).max(max, tooMany);
  const schema: ListOf<T> = (empty === undefined ? bounded : bounded.min(1, empty)).transform((items, context) => {
    const parsed: z.output<T>[] = [];
    const problems = new Problems(context);
    for (let index = 0; index < items.length; index++) {
      if (problems.isFull) {
        problems.leave(items.length - index);
        break;
      }
      const one = element.safeParse(items[index]);
      if (one.success) parsed.push(one.data);
      else problems.add(index, one.error);
    }
    return parsed;
  });
  const plain = z.array(element).max(max, tooMany);
  plainForms.set(schema, {
    kind: 'list',
    schema: empty === undefined ? plain : plain.min(1, empty),
    element,
    max,
  });
  return schema;
}

/** An object with names that the sender chooses, at most `max` of them. */
export function dict<T extends z.ZodType>(value: T, { max }: { max: number }): DictOf<T> {
  const members = z.custom<Record<string, unknown>>((given) => isRecord(given), 'must be an object');
  const schema: DictOf<T> = members.transform((given, context) => {
    const parsed: [string, z.output<T>][] = [];
    const problems = new Problems(context);
    let count = 0;
    for (const name in given) {
      if (++count > max) {
        context.addIssue({ code: 'custom', message: `must have at most ${max} members` });
        return z.NEVER;
      }
      // Problems are named however many elements follow; those are counted.
      if (problems.isFull || !Object.hasOwn(given, name)) continue;
      const one = value.safeParse(given[name]);
      if (one.success) parsed.push([name, one.data]);
      else problems.add(name, one.error);
    }
    return Object.fromEntries(parsed);
  });
  plainForms.set(schema, { kind: 'dict', schema: z.record(z.string(), value), element: value, max });
  return schema;
}

/**
 * The JSON Schema of a schema, with the lists of this module as what they are; a check by code is
 * left open.
 */
export function jsonSchemaOf(
  schema: z.ZodType,
  options: Pick<z.core.ToJSONSchemaParams, 'io' | 'reused' | 'target'>,
): Record<string, unknown> {
  return z.toJSONSchema(schema, {
    ...options,
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      const plain = plainForm(zodSchema);
      if (plain === undefined) return;
      const { $schema, ...form } = jsonSchemaOf(plain.schema, options);
      Object.assign(jsonSchema, form);
    },
  });
}

/** What is wrong with the elements of one list. */
class Problems {
  readonly #context: z.RefinementCtx;
  #count = 0;

  constructor(context: z.RefinementCtx) {
    this.#context = context;
  }

  get isFull(): boolean {
    return this.#count >= MAX_PROBLEMS;
  }

  add(at: string | number, { issues }: z.ZodError): void {
    for (const issue of issues) {
      this.#count++;
      this.#context.addIssue({ ...issue, path: [at, ...issue.path] } as Parameters<z.RefinementCtx['addIssue']>[0]);
    }
  }

  /** The others are not read. */
  leave(others: number): void {
    this.#context.addIssue({ code: 'custom', message: 'are not read', params: { [UNREAD]: others } });
  }
}

const UNREAD = 'unread';

/** How many elements a list left unread, if the issue says that; undefined for a problem. */
export function unreadOf(issue: z.core.$ZodIssue): number | undefined {
  const unread: unknown = issue.code === 'custom' ? issue.params?.[UNREAD] : undefined;
  return typeof unread === 'number' ? unread : undefined;
}
