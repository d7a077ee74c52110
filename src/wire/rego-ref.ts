import type { DocPath } from './doc-path.js';

/** A document path as a reference in a Rego query. */
export function dataRef(path: DocPath): string {
  return `data${path.map((segment) => `[${regoString(segment)}]`).join('')}`;
}

/** ASCII only: Rego texts may not have every character. */
function regoString(text: string): string {
  return JSON.stringify(text).replaceAll(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
