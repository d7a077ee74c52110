import type { GoProcess } from '../../src/embedded/go/go-process.js';
import type { GoEngine } from '../../src/embedded/types.js';

/** A process for many users one after the other, each of which ends it in vain. */
export function sharedGo(go: GoProcess): GoEngine {
  return {
    parse: (modules, version) => go.parse(modules, version),
    check: (policy, documents) => go.check(policy, documents),
    prepare: (policy, change) => go.prepare(policy, change),
    commit: () => go.commit(),
    abort: () => go.abort(),
    write: (ops) => go.write(ops),
    compile: (entrypoints, of) => go.compile(entrypoints, of),
    decide: (path, input) => go.decide(path, input),
    query: (text, input, isStrict) => go.query(text, input, isStrict),
    http: (request) => go.http(request),
    memoryBytes: go.memoryBytes,
    version: go.version,
    ended: go.ended,
    kill: async () => undefined,
  };
}
