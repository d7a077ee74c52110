/** A JSON Schema as an OpenAPI document has it: the part of it that our documents use. */
export interface Schema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly prefixItems?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
}

/** One place in a body. */
export interface SchemaPlace {
  readonly path: readonly (string | number)[];
  /** The schema may be met without it. */
  readonly optional: boolean;
  readonly schema: Schema;
}

/** A value of each JSON type, in forms that are easily taken for something else. */
const VALUES: Readonly<Record<string, readonly unknown[]>> = {
  null: [null],
  boolean: [true, false],
  number: [7, 0, -1, 1.5, 1e308],
  string: ['text', '', '7', 'true', 'null'],
  array: [[], ['x'], [null]],
  object: [{}, { x: 1 }, { length: 1, 0: 'x' }],
};

/** Values of members whose schema says less than what is checked. */
const NAMED: Readonly<Record<string, unknown>> = { method: 'post' };

/** A body in which every member of the schema has a value of its type. Rules beyond types may still refuse it. */
export function example(schema: Schema): unknown {
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  const [first] = choices(schema);
  if (first !== undefined) return example(first);
  switch (kindOf(schema)) {
    case 'object':
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([name, member]) => [name, NAMED[name] ?? example(member)]),
      );
    case 'array':
      return (schema.prefixItems ?? [schema.items ?? {}]).map(example);
    case 'string':
      return 'http://127.0.0.1:9/x';
    case 'number':
    case 'integer':
      return 1;
    case 'boolean':
      return true;
    case 'null':
      return null;
    default:
      return {};
  }
}

/** Every place below the root that a schema speaks of, the root itself included. */
export function places(schema: Schema, path: readonly (string | number)[] = [], optional = false): SchemaPlace[] {
  const own = { path, optional, schema };
  const at = choices(schema)[0] ?? schema;
  if (kindOf(at) === 'object') {
    const members = Object.entries(at.properties ?? {});
    return [own, ...members.flatMap(([name, member]) => places(member, [...path, name], !at.required?.includes(name)))];
  }
  if (kindOf(at) !== 'array') return [own];
  return [own, ...(at.prefixItems ?? [at.items ?? {}]).flatMap((item, index) => places(item, [...path, index], true))];
}

/** Values whose JSON type the schema does not take. None for a schema that takes every type. */
export function wrongValues(schema: Schema): unknown[] {
  const accepted = types(schema);
  return Object.entries(VALUES)
    .filter(([type]) => !accepted.has(type))
    .flatMap(([, values]) => values);
}

/** A copy of a body with another value at a place; `undefined` removes the member. */
export function replaced(body: unknown, path: readonly (string | number)[], value: unknown): unknown {
  const [name, ...rest] = path;
  if (name === undefined) return value;
  if (Array.isArray(body)) return body.map((item, index) => (index === name ? replaced(item, rest, value) : item));
  const copy = { ...(body as Record<string, unknown>) };
  if (rest.length === 0 && value === undefined) delete copy[name];
  else copy[name] = replaced(copy[name], rest, value);
  return copy;
}

/** Alternatives, the one that says most first: an object or a list rather than a text, anything rather than null. */
function choices(schema: Schema): Schema[] {
  const all = schema.anyOf ?? schema.oneOf ?? [];
  const weight = (kind: string | undefined): number => ['object', 'array', 'string'].indexOf(kind ?? '') + 1 || 9;
  return [...all].sort((a, b) => weight(kindOf(a)) - weight(kindOf(b)));
}

/** The type that a schema is about, null apart. */
function kindOf({ type }: Schema): string | undefined {
  return [type ?? []].flat().find((one) => one !== 'null');
}

function types(schema: Schema): Set<string> {
  const alternatives = schema.anyOf ?? schema.oneOf;
  if (alternatives !== undefined) return new Set(alternatives.flatMap((one) => [...types(one)]));
  if (schema.const !== undefined) return new Set([typeOf(schema.const)]);
  if (schema.enum !== undefined) return new Set(schema.enum.map(typeOf));
  if (schema.type === undefined) return new Set(Object.keys(VALUES));
  return new Set([schema.type].flat().map((type) => (type === 'integer' ? 'number' : String(type))));
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}
