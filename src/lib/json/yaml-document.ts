import { createRequire } from 'node:module';
import type * as Yaml from 'yaml';

/** Most aliases (`*name`) that a document may use: each is looked for in the whole document. */
const MAX_ALIASES = 100;
/** Most values that a document may have, those of its aliases included. */
const MAX_VALUES = 100_000;
const MAX_DEPTH = 100;

/** What is wrong with a document, and where; never shows a value. */
export class YamlProblem extends Error {
  override readonly name = 'YamlProblem';
  readonly line: number;

  constructor(line: number, message: string) {
    super(message);
    this.line = line;
  }
}

/** A member of a map. */
export interface YamlMember {
  readonly key: string;
  readonly line: number;
  readonly value: YamlValue;
}

/** A value of a document, of which only {@link YamlDocument} knows more. */
export interface YamlValue {
  readonly line: number;
  readonly kind: 'none' | 'scalar' | 'list' | 'map';
}

type Found = YamlValue & { readonly node: Yaml.Scalar | Yaml.YAMLMap | Yaml.YAMLSeq | undefined };

/**
 * One YAML 1.2 document. Scalars are read as they are written, so that `1.10` is not 1.1. Keys are
 * texts and unique, tags and further documents are problems, and aliases are bounded. Every method
 * throws {@link YamlProblem}.
 */
export class YamlDocument {
  readonly #yaml: typeof Yaml;
  readonly #document: Yaml.Document.Parsed;
  readonly #lines: Yaml.LineCounter;
  #aliases = 0;
  #values = 0;

  constructor(text: string) {
    // Loaded here and not at the top: who has no configuration file has no use for its seventy
    // modules.
    this.#yaml = createRequire(import.meta.url)('./yaml.cjs') as typeof Yaml;
    this.#lines = new this.#yaml.LineCounter();
    this.#document = this.#yaml.parseDocument(text, {
      lineCounter: this.#lines,
      prettyErrors: false,
      stringKeys: true,
      version: '1.2',
      schema: 'core',
      merge: false,
      uniqueKeys: false, // it compares each key with all before it; members() looks them up
      logLevel: 'error',
    });
    const [problem] = [...this.#document.errors, ...this.#document.warnings];
    if (problem !== undefined) throw new YamlProblem(this.#lineAt(problem.pos[0]), problemText(problem.code));
  }

  root(): YamlValue {
    return this.#found(this.#document.contents, 1);
  }

  /**
   * The members of a map; of an empty document or value, none. `what`: how a message names the map.
   */
  members(value: YamlValue, what: string): YamlMember[] {
    const { node } = value as Found;
    if (value.kind === 'none') return [];
    if (!this.#yaml.isMap(node)) throw new YamlProblem(value.line, `${what} must be a map, one \`key: value\` a line`);
    const keys = new Set<string>();
    return node.items.map((pair) => {
      const { value, range } = pair.key as Yaml.Scalar;
      const [key, line] = [String(value), this.#lineAt(range?.[0] ?? 0)];
      if (keys.has(key)) throw new YamlProblem(line, 'this key is there twice');
      keys.add(key);
      return { key, line, value: this.#found(pair.value, line) };
    });
  }

  /** The items of a list. */
  items(value: YamlValue): YamlValue[] {
    const { node } = value as Found;
    return this.#yaml.isSeq(node) ? node.items.map((item) => this.#found(item, value.line)) : [];
  }

  /** A text, number or boolean as it is written; undefined for a list, a map or nothing. */
  scalar(value: YamlValue): string | undefined {
    const { node } = value as Found;
    if (value.kind !== 'scalar' || !this.#yaml.isScalar(node)) return undefined;
    return typeof node.value === 'string' ? node.value : (node.source ?? String(node.value));
  }

  /** A value as JSON; numbers keep their digits. */
  json(value: YamlValue, depth = 0): string {
    if (depth > MAX_DEPTH) throw new YamlProblem(value.line, `must not be nested deeper than ${MAX_DEPTH} levels`);
    if (value.kind === 'none') return 'null';
    if (value.kind === 'list') return `[${this.items(value).map((item) => this.json(item, depth + 1))}]`;
    if (value.kind === 'map') {
      const members = this.members(value, 'this');
      return `{${members.map((member) => `${JSON.stringify(member.key)}:${this.json(member.value, depth + 1)}`)}}`;
    }
    const scalar = (value as Found).node as Yaml.Scalar;
    if (typeof scalar.value !== 'number') return JSON.stringify(scalar.value);
    const source = scalar.source ?? '';
    if (JSON_NUMBER.test(source)) return source;
    if (Number.isFinite(scalar.value)) return JSON.stringify(scalar.value);
    throw new YamlProblem(value.line, 'must be JSON, which has no such number');
  }

  #found(given: unknown, line: number): Found {
    if (++this.#values > MAX_VALUES) throw new YamlProblem(line, `has more than ${MAX_VALUES} values`);
    const node = this.#yaml.isAlias(given) ? this.#resolved(given, line) : given;
    const at = this.#yaml.isNode(given) && given.range != null ? this.#lineAt(given.range[0]) : line;
    if (this.#yaml.isMap(node)) return { line: at, kind: 'map', node };
    if (this.#yaml.isSeq(node)) return { line: at, kind: 'list', node };
    if (this.#yaml.isScalar(node) && node.value !== null) return { line: at, kind: 'scalar', node };
    return { line, kind: 'none', node: undefined };
  }

  #resolved(alias: Yaml.Alias, line: number): unknown {
    if (++this.#aliases > MAX_ALIASES) throw new YamlProblem(line, `has more than ${MAX_ALIASES} aliases`);
    const target = alias.resolve(this.#document);
    if (target === undefined) throw new YamlProblem(line, 'is an alias of nothing: quote a text that starts with *');
    return target;
  }

  #lineAt(offset: number): number {
    return this.#lines.linePos(offset).line;
  }
}

/** RFC 8259, section 6. */
const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** The parser's own messages may quote the text, which may be a secret. */
function problemText(code: Yaml.ErrorCode): string {
  if (code === 'MULTIPLE_DOCS') return 'a configuration file is one YAML document, without a line `---` in between';
  if (code === 'TAG_RESOLVE_FAILED') return 'YAML tags (!name) mean nothing here';
  return `is not YAML (${code.toLowerCase().replaceAll('_', ' ')})`;
}
