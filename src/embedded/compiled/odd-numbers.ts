import { jsonString } from '../../lib/json/json.js';
import { type DocPath, isAtOrBelow, pathsOverlap } from '../../wire/doc-path.js';
import type { DocumentOp } from '../types.js';

/**
 * Numbers that mean the same to OPA however they are written, but not to a compiled policy: with an
 * exponent (another key of sets and objects), negative zero, whole ones with a fraction (1.0 is an
 * index of an array to OPA), and those with more digits than are exact.
 */

/** Matches every text that may have such a number, and few others: strings are not told apart. */
const MAY_BE_ODD = /\d[eE]|-0(?:\.0*)?(?![\d.])|\.0+(?!\d)|\d{19}|\d\.\d{15}|\d{15}\.\d/;

/** More places than this in one text are one: the text itself. */
const MOST_PLACES = 100;

const NUMBER = /-?\d[\d.eE+-]*/y;

/** As {@link MAY_BE_ODD}, without those of many digits. */
const MAY_BE_SPELT_OTHERWISE = /\d[eE]|-0(?:\.0*)?(?![\d.])|\.0+(?!\d)/;

/**
 * Whether a term of Rego as text has a number that compiled code finds nothing by: with an
 * exponent, whole with a fraction, or `-0`.
 */
export function hasOtherSpelling(term: string): boolean {
  if (!MAY_BE_SPELT_OTHERWISE.test(term)) return false;
  for (let at = 0; at < term.length; ) {
    if (term.charAt(at) === '"') {
      at = endOfString(term, at);
      continue;
    }
    NUMBER.lastIndex = at;
    const number = NUMBER.exec(term)?.[0];
    if (number !== undefined && MAY_BE_SPELT_OTHERWISE.test(number)) return true;
    at += number?.length ?? 1;
  }
  return false;
}

/**
 * Where a JSON text has numbers that {@link OddNumbers} are about: paths of members; a list is one
 * place.
 */
export function placesOfOddNumbers(json: string): readonly DocPath[] {
  if (!MAY_BE_ODD.test(json)) return [];
  const found = new Map<string, DocPath>();
  /** Names of the members around; undefined for the elements of a list. */
  const around: (string | undefined)[] = [];
  for (let at = 0; at < json.length && found.size <= MOST_PLACES; ) {
    const next = json.charAt(at);
    NUMBER.lastIndex = at;
    const number = NUMBER.exec(json)?.[0];
    const end = next === '"' ? endOfString(json, at) : at + (number?.length ?? 1);
    if (next === '{' || next === '[') around.push(undefined);
    else if (next === '}' || next === ']') around.pop();
    else if (next === '"' && isName(json, end)) around[around.length - 1] = jsonString(json.slice(at, end));
    else if (number !== undefined && MAY_BE_ODD.test(number)) {
      const list = around.indexOf(undefined);
      const path = (list === -1 ? around : around.slice(0, list)).map(String);
      found.set(JSON.stringify(path), path);
    }
    at = end;
  }
  return found.size > MOST_PLACES ? [[]] : [...found.values()];
}

/** The index after a string; the text is valid JSON. */
function endOfString(json: string, start: number): number {
  for (let end = json.indexOf('"', start + 1); end !== -1; end = json.indexOf('"', end + 1)) {
    let slashes = 0;
    while (json.charAt(end - 1 - slashes) === '\\') slashes++;
    if (slashes % 2 === 0) return end + 1;
  }
  return json.length;
}

const COLON = /\s*:/y;

function isName(json: string, end: number): boolean {
  COLON.lastIndex = end;
  return COLON.test(json);
}

/** Where the documents have such numbers: what reads them is for Go. */
export class OddNumbers {
  #places: readonly DocPath[];

  /** `documents`: all of them, as one JSON object. */
  constructor(documents: string) {
    this.#places = placesOfOddNumbers(documents);
  }

  /** Follows a change of the documents; returns whether the places have changed. */
  patch(ops: readonly DocumentOp[]): boolean {
    const before = this.#places;
    for (const { path, text } of ops) {
      const rest = this.#places.filter((place) => !isAtOrBelow(place, path));
      const added = text === undefined ? [] : placesOfOddNumbers(text).map((place) => [...path, ...place]);
      if (rest.length < this.#places.length || added.length > 0) this.#places = [...rest, ...added];
    }
    return this.#places !== before;
  }

  /** Whether what reads these documents reads such a number. */
  areIn(reads: readonly DocPath[]): boolean {
    return this.#places.length > 0 && this.#places.some((place) => reads.some((path) => pathsOverlap(place, path)));
  }
}
