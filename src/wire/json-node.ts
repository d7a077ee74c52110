import { hash } from 'node:crypto';
import { elements, jsonKind, members, objectText } from '../lib/json/json-text.js';
import { type DocPath, docPathPointer } from './doc-path.js';

/** A document's bytes: in memory, or in a spool file. `hash` is the hex SHA-256 of the bytes. */
export interface Body {
  readonly hash: string;
  readonly sizeBytes: number;
  /** The whole text. Reads the file when the body is spooled: used only where documents overlap. */
  text(): string;
  /** The bytes, for one request. */
  stream(): string | NodeJS.ReadableStream;
  /** Releases the spool file, if any. */
  dispose(): Promise<void>;
  /**
   * Keeps the bytes, whoever disposes of them, until the returned function is called. Missing: they
   * are in memory.
   */
  pin?(): () => Promise<void>;
}

/**
 * A document subtree, composed from overlapping documents: texts stay as written and are parsed
 * only where one document lies inside another. `undefined` stands for "no document".
 */
export type Node = Leaf | Branch;

/** A whole JSON value as written. `body` is there when it is exactly one fetched body. */
export interface Leaf {
  readonly kind: 'leaf';
  readonly text: () => string;
  readonly body?: Body;
}

/** An object whose members come from different documents. */
export interface Branch {
  readonly kind: 'branch';
  readonly members: ReadonlyMap<string, Node>;
  /** Nothing says that it is there but what lies below it: it goes with its last member. */
  readonly isImplied?: boolean;
}

/** A leaf around a JSON text. */
export function leafOf(text: string): Leaf {
  return { kind: 'leaf', text: () => text };
}

/** A leaf around a body; its text is read only when needed. */
export function leafOfBody(body: Body): Leaf {
  return { kind: 'leaf', body, text: () => body.text().trim() };
}

const EMPTY: ReadonlyMap<string, Node> = new Map();

/** The members of a node; a node that is not an object has none. */
export function membersOf(node: Node | undefined): ReadonlyMap<string, Node> {
  if (node === undefined) return EMPTY;
  if (node.kind === 'branch') return node.members;
  const text = node.text();
  if (jsonKind(text) !== 'object') return EMPTY;
  return new Map([...members(text)].map(([key, value]) => [key, leafOf(value)]));
}

/** True when the node is an object (also an empty one). */
export function isObject(node: Node | undefined): node is Node {
  return node !== undefined && (node.kind === 'branch' || jsonKind(node.text()) === 'object');
}

/** The node at a path inside a node; array indexes count as segments. */
export function nodeAt(node: Node | undefined, path: DocPath): Node | undefined {
  let at = node;
  for (const segment of path) {
    if (at === undefined) return undefined;
    if (at.kind === 'leaf' && jsonKind(at.text()) === 'array') {
      const item = /^(0|[1-9]\d*)$/.test(segment) ? elements(at.text())[Number(segment)] : undefined;
      at = item === undefined ? undefined : leafOf(item);
    } else {
      at = membersOf(at).get(segment);
    }
  }
  return at;
}

/** Objects that were made on the way to one value, and that nothing else has. */
export type MadeNode = Map<ReadonlyMap<string, Node>, Map<string, Node>>;

/**
 * The node with the value at `path` replaced, or removed for `undefined`. Missing parents are
 * created, and implied; a parent that is no object becomes one (a later write below it wins, design
 * D6). Removing what is not there changes nothing. An implied parent goes with its last member.
 * What is `made` already is changed in place: many values in one object cost no copy of it each.
 */
export function withValue(
  node: Node | undefined,
  path: DocPath,
  value: Node | undefined,
  made?: MadeNode,
): Node | undefined {
  const [segment, ...rest] = path;
  if (segment === undefined) return value;
  if (value === undefined && !isObject(node)) return node;
  const before = membersOf(node);
  if (value === undefined && !before.has(segment)) return node;
  const after = made?.get(before) ?? new Map(before);
  made?.set(after, after);
  const child = withValue(before.get(segment), rest, value, made);
  if (child === undefined) after.delete(segment);
  else after.set(segment, child);
  return branchOf(after, !isObject(node) || isImplied(node));
}

/** The object with these members; none where it would be implied and has no member. */
export function branchOf(members: ReadonlyMap<string, Node>, isImplied: boolean): Branch | undefined {
  if (!isImplied) return { kind: 'branch', members };
  return members.size === 0 ? undefined : { kind: 'branch', members, isImplied };
}

/** True for an object that goes with its last member. */
export function isImplied(node: Node): boolean {
  return node.kind === 'branch' && node.isImplied === true;
}

/** The node as a value of its own: nothing in it is implied. */
export function asOwn(node: Node): Node {
  if (node.kind === 'leaf') return node;
  return { kind: 'branch', members: new Map([...node.members].map(([key, member]) => [key, asOwn(member)])) };
}

/** The paths of the implied objects in a node, as RFC 6901 pointers. */
export function impliedIn(node: Node, path: DocPath = []): string[] {
  if (node.kind === 'leaf') return [];
  const below = [...node.members].flatMap(([key, member]) => impliedIn(member, [...path, key]));
  return isImplied(node) ? [docPathPointer(path), ...below] : below;
}

/** The node with the objects at these paths implied; see {@link impliedIn}. */
export function withImplied(node: Node, paths: readonly DocPath[]): Node {
  return paths.reduce((at, path) => impliedAt(at, path) ?? at, node);
}

function impliedAt(node: Node | undefined, [segment, ...rest]: DocPath): Node | undefined {
  if (!isObject(node)) return node;
  const members = new Map(membersOf(node));
  if (segment === undefined) return { kind: 'branch', members, isImplied: true };
  const child = impliedAt(members.get(segment), rest);
  if (child !== undefined) members.set(segment, child);
  return { kind: 'branch', members, isImplied: isImplied(node) };
}

/** The node as JSON text. */
export function nodeText(node: Node): string {
  if (node.kind === 'leaf') return node.text();
  return objectText([...node.members].map(([key, member]) => [key, nodeText(member)] as const));
}

/** True when both are the same text; compares bodies by hash, so that no file is read. */
export function sameNode(a: Node | undefined, b: Node | undefined): boolean {
  if (a === b) return true;
  if (a === undefined || b === undefined || a.kind !== b.kind) return false;
  if (a.kind === 'leaf' && b.kind === 'leaf') {
    if (a.body !== undefined && b.body !== undefined) return a.body.hash === b.body.hash;
    return a.text() === b.text();
  }
  const left = membersOf(a);
  const right = membersOf(b);
  if (left.size !== right.size) return false;
  for (const [key, member] of left) if (!sameNode(member, right.get(key))) return false;
  return true;
}

/**
 * A body around a text in memory; nearly every document is one. `bytes`: the text in UTF-8, where
 * the caller has it.
 */
export function bodyOfText(text: string, bytes: Uint8Array | string = text): Body & AsyncDisposable {
  const give = (): string => text;
  return {
    hash: hash('sha256', bytes, 'hex'),
    sizeBytes: Buffer.byteLength(bytes),
    text: give,
    stream: give,
    dispose: nothing,
    [Symbol.asyncDispose]: nothing,
  };
}

function nothing(): Promise<void> {
  return Promise.resolve();
}
