import * as z from 'zod';
import { plainForm } from './lists.js';

/**
 * Members of answers that only insiders get (`auth/caller.ts`): texts of failures, which can quote
 * a response from inside of a network, and addresses of internal services. For all others they are
 * missing. A mark in the schema says so, `/openapi.json` has it.
 */
const MARK = 'x-insider';

type Schema = z.core.$ZodType;

/** A member of an object that is for insiders. */
export function insider<T extends z.ZodType>(schema: T): z.ZodOptional<T> {
  return z.optional(schema).meta({ [MARK]: true });
}

/** Whether a member is for insiders, whatever was added to its schema since. */
export function isForInsiders(schema: Schema): boolean {
  if (z.globalRegistry.get(schema)?.[MARK] === true) return true;
  const inner = innerOf(schema);
  return inner !== undefined && isForInsiders(inner);
}

/** What of the values of a schema is for insiders. */
interface Cut {
  /** Members that are. */
  readonly gone: ReadonlySet<string>;
  /** Members that have such inside. */
  readonly inside: ReadonlyMap<string, Cut>;
  /** Elements of a list, or values of a map, that have. */
  readonly each: Cut | undefined;
}

/**
 * Returns what leaves out all that is for insiders of values of a schema; undefined if nothing is.
 */
export function insiderCut(schema: z.ZodType): ((value: unknown) => unknown) | undefined {
  const cut = cutOf(schema);
  return cut && ((value) => withoutInside(value, cut));
}

function withoutInside(value: unknown, cut: Cut): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const { gone, inside, each } = cut;
  if (Array.isArray(value)) return each === undefined ? value : value.map((one) => withoutInside(one, each));
  const kept = Object.entries(value).flatMap(([name, member]): [string, unknown][] => {
    if (gone.has(name)) return [];
    const own = inside.get(name) ?? each;
    return [[name, own === undefined ? member : withoutInside(member, own)]];
  });
  return Object.fromEntries(kept);
}

function cutOf(schema: Schema): Cut | undefined {
  const plain = plainForm(schema);
  if (plain !== undefined) return eachOf(plain.element);
  if (schema instanceof z.ZodObject) return cutOfMembers(schema.shape);
  if (schema instanceof z.ZodArray) return eachOf(schema.element);
  if (schema instanceof z.ZodRecord) return eachOf(schema.valueType);
  // A member is gone if one of the alternatives says so.
  if (schema instanceof z.ZodUnion) return schema.options.map(cutOf).reduce(merged, undefined);
  const inner = innerOf(schema);
  return inner && cutOf(inner);
}

function cutOfMembers(shape: Readonly<Record<string, Schema>>): Cut | undefined {
  const gone = new Set<string>();
  const inside = new Map<string, Cut>();
  for (const [name, member] of Object.entries(shape)) {
    const cut = isForInsiders(member) ? undefined : cutOf(member);
    if (isForInsiders(member)) gone.add(name);
    else if (cut !== undefined) inside.set(name, cut);
  }
  return gone.size + inside.size === 0 ? undefined : { gone, inside, each: undefined };
}

function eachOf(element: Schema): Cut | undefined {
  const each = cutOf(element);
  return each && { gone: new Set(), inside: new Map(), each };
}

function merged(one: Cut | undefined, other: Cut | undefined): Cut | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  const inside = new Map(one.inside);
  for (const [name, cut] of other.inside) inside.set(name, merged(inside.get(name), cut) ?? cut);
  return { gone: new Set([...one.gone, ...other.gone]), inside, each: merged(one.each, other.each) };
}

/** The schema inside of one that only says more about it: optional, nullable, with a default. */
function innerOf({ _zod: { def } }: Schema): Schema | undefined {
  return 'innerType' in def ? (def.innerType as Schema) : undefined;
}
