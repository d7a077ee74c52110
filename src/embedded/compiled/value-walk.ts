import type { Address } from './abi.js';
import type { PolicyMemory } from './policy-memory.js';

/** How OPA lays values out in memory (`value.h`), as far as needed to follow a path. All fields are words of four bytes. */
const TYPE = { string: 4, object: 6, internedString: 8 } as const;
const STRING = { length: 4, text: 8 } as const;
const OBJECT = { buckets: 4, count: 8 } as const;
const ELEMENT = { key: 0, value: 4, next: 8 } as const;

/** The value of a member of an object; undefined if the value is no object, or has no such member. */
export function memberAt(memory: PolicyMemory, object: Address, name: string): Address | undefined {
  if (memory.bytes[object >>> 0] !== TYPE.object) return undefined;
  const wanted = Buffer.from(name);
  const buckets = memory.word(object + OBJECT.buckets);
  const bucket = hashOf(wanted) % memory.word(object + OBJECT.count);
  for (let at = memory.word(buckets + 4 * bucket); at !== 0; at = memory.word(at + ELEMENT.next)) {
    if (isString(memory, memory.word(at + ELEMENT.key), wanted)) return memory.word(at + ELEMENT.value);
  }
  return undefined;
}

function isString(memory: PolicyMemory, value: Address, wanted: Buffer): boolean {
  const type = memory.bytes[value];
  if (type !== TYPE.string && type !== TYPE.internedString) return false;
  if (memory.word(value + STRING.length) !== wanted.length) return false;
  const start = memory.word(value + STRING.text);
  return memory.bytes.compare(wanted, 0, wanted.length, start, start + wanted.length) === 0;
}

/** FNV-1a, 32 bits: OPA's hash of a string. */
function hashOf(bytes: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (const byte of bytes) hash = Math.imul(hash, 0x01000193) ^ byte;
  return hash >>> 0;
}
