import * as z from 'zod';
import { plainForm } from '../../src/wire/lists.js';

/** A list or a map with free names inside a schema. */
export interface ListPlace {
  /** Members on the way to it; 0 stands for an element of a list, `*` for a member of a map. */
  readonly path: readonly (string | 0)[];
  readonly kind: 'list' | 'dict';
  /** Most elements that it takes; undefined: nothing bounds it. */
  readonly max: number | undefined;
  /** Elements that are wrong are counted, and left after some. */
  readonly stops: boolean;
}

/** Every list and map of a schema, found in the schema itself, so that a new one is found too. */
export function listPlaces(schema: z.ZodType, path: ListPlace['path'] = []): ListPlace[] {
  const plain = plainForm(schema);
  if (plain !== undefined) {
    const step = plain.kind === 'list' ? 0 : '*';
    return [{ path, kind: plain.kind, max: plain.max, stops: true }, ...listPlaces(plain.element, [...path, step])];
  }
  const inside = (inner: unknown, step?: string | 0): ListPlace[] =>
    inner instanceof z.ZodType ? listPlaces(inner, step === undefined ? path : [...path, step]) : [];
  if (schema instanceof z.ZodArray) {
    const max = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }).maxItems;
    return [{ path, kind: 'list', max, stops: false }, ...inside(schema.element, 0)];
  }
  if (schema instanceof z.ZodRecord) {
    const isAny = schema.valueType instanceof z.ZodUnknown;
    return isAny ? [] : [{ path, kind: 'dict', max: undefined, stops: false }, ...inside(schema.valueType, '*')];
  }
  if (schema instanceof z.ZodObject)
    return Object.entries(schema.shape).flatMap(([name, inner]) => inside(inner, name));
  if (schema instanceof z.ZodTuple) return schema.def.items.flatMap((inner) => inside(inner, 0));
  if (schema instanceof z.ZodUnion) return schema.options.flatMap((inner) => inside(inner));
  if (schema instanceof z.ZodPipe) return [...inside(schema.in), ...inside(schema.out)];
  return 'innerType' in schema.def ? inside(schema.def.innerType) : [];
}

/** The lists of a JSON Schema, such as a running program describes its bodies with. Maps there say no length. */
export function describedPlaces(schema: unknown, path: ListPlace['path'] = []): ListPlace[] {
  if (typeof schema !== 'object' || schema === null) return [];
  const { items, maxItems, properties, anyOf, oneOf, allOf } = schema as Readonly<Record<string, unknown>>;
  const max = typeof maxItems === 'number' ? maxItems : undefined;
  return [
    ...(items === undefined ? [] : [{ path, kind: 'list', max, stops: true } as const]),
    ...describedPlaces(items, [...path, 0]),
    ...Object.entries(properties ?? {}).flatMap(([name, inner]) => describedPlaces(inner, [...path, name])),
    ...[anyOf, oneOf, allOf]
      .flatMap((some) => (Array.isArray(some) ? some : []))
      .flatMap((one) => describedPlaces(one, path)),
  ];
}

/** The JSON text of so many elements of which none is what a schema asks for. */
export function wrongElements(kind: ListPlace['kind'], count: number): string {
  return kind === 'list'
    ? `[${'1,'.repeat(count - 1)}1]`
    : `{${Array.from({ length: count }, (_, index) => `"k${index}":[]`).join(',')}}`;
}

/** The JSON text of a value that has {@link wrongElements} at a place. */
export function withElements({ path, kind }: ListPlace, count: number): string {
  return path.reduceRight<string>(
    (text, step) => (step === 0 ? `[${text}]` : `{${JSON.stringify(step)}:${text}}`),
    wrongElements(kind, count),
  );
}
