import type { EngineQuestion } from '../../embedded/vocabulary.js';
import { SyncError } from '../../lib/errors.js';
import { JsonText } from '../../lib/json/json-text.js';
import { docPathUrl, parseDocPath } from '../../wire/doc-path.js';

/** Paths whose check is remembered: an application has a few, and asks them again and again. */
const REMEMBERED = 1000;
/** Of at most so many characters. */
const LONGEST_REMEMBERED = 500;

/** Turns what an application asks into questions to the engine. */
export class Questions {
  /** Paths in their one form, by the form that they were given in. */
  readonly #paths = new Map<string, string>();

  /** Throws `request_invalid` for a path or an input that no engine can be asked. */
  question(path: string, input: unknown): EngineQuestion {
    return { path: this.path(path), input: inputText(input) };
  }

  /** The path without slashes at its ends, escaped as in a URL. Throws `request_invalid`. */
  path(given: string): string {
    const known = this.#paths.get(given);
    if (known !== undefined) return known;
    const path = checkedPath(given);
    if (given.length > LONGEST_REMEMBERED) return path;
    if (this.#paths.size >= REMEMBERED) this.#paths.clear();
    this.#paths.set(given, path);
    return path;
  }
}

function checkedPath(given: unknown): string {
  if (typeof given !== 'string') throw invalid(`the path of a decision must be a text such as app/rbac/allow`);
  const path = parseDocPath(given);
  if (path.length === 0) throw invalid(`${JSON.stringify(given)} names no decision: use a path such as app/rbac/allow`);
  return docPathUrl(path).slice(1);
}

/**
 * The input as JSON; undefined: no input, which null is to OPA, too (`{"input": null}` of its REST
 * API).
 */
function inputText(input: unknown): string | undefined {
  if (input === undefined) return undefined;
  const text = input instanceof JsonText ? input.text : jsonOf(input);
  return text.trim() === 'null' ? undefined : text;
}

function jsonOf(input: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(input);
  } catch (cause) {
    throw invalid('the input of a decision cannot be written as JSON', cause);
  }
  if (text === undefined) throw invalid(`the input of a decision must not be a ${typeof input}`);
  return text;
}

function invalid(message: string, cause?: unknown): SyncError {
  return new SyncError('request_invalid', message, { cause });
}
