import type { DataOp } from '../desired/diff.js';

/** Operations of one engine transaction: bounded, so that no request grows with the size of the fleet's data. */
const MAX_OPS = 1000;
/** A body of at least this size goes alone, as one streamed put. */
const LARGE_BYTES = 1024 * 1024;
/** Sum of the known body sizes of one transaction. */
const MAX_BYTES = 4 * 1024 * 1024;

/** Splits operations into engine transactions: small ones together, large bodies alone, in order. */
export function* inChunks(ops: readonly DataOp[]): Generator<readonly DataOp[]> {
  let chunk: DataOp[] = [];
  let bytes = 0;
  for (const op of ops) {
    const size = op.op === 'put' ? (op.body?.sizeBytes ?? 0) : 0;
    if (chunk.length > 0 && (chunk.length >= MAX_OPS || bytes + size > MAX_BYTES || size >= LARGE_BYTES)) {
      yield chunk;
      chunk = [];
      bytes = 0;
    }
    chunk.push(op);
    bytes += size;
    if (size >= LARGE_BYTES) {
      yield chunk;
      chunk = [];
      bytes = 0;
    }
  }
  if (chunk.length > 0) yield chunk;
}
