import { Secret } from '../observe/log.js';
import { readSecretFile } from './secret-file.js';

/**
 * A secret in a file that others replace while the program runs, as Kubernetes does: it is read at
 * each use. As long as the file is missing or has no such secret in it, which may be for a moment,
 * the last one counts.
 */
export class FileSecret extends Secret {
  readonly #path: string;
  readonly #read: (text: string) => string | undefined;
  #last: string;

  /** `read`: the secret in the text of the file; undefined: there is none that could be used. */
  constructor(path: string, first: string, read: (text: string) => string | undefined) {
    super(first);
    this.#path = path;
    this.#read = read;
    this.#last = first;
  }

  override reveal(): string {
    this.#last = this.#now() ?? this.#last;
    return this.#last;
  }

  #now(): string | undefined {
    try {
      return this.#read(readSecretFile(this.#path).text);
    } catch {
      return undefined; // the last one counts; if it no longer does, the server says so
    }
  }
}
