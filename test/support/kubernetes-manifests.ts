import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { parseAllDocuments } from 'yaml';
import * as z from 'zod';

/** What every manifest has. */
const manifest = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), labels: z.record(z.string(), z.string()).default({}) }),
});
export type Manifest = z.infer<typeof manifest>;

/** The manifests of a file, or of what helm prints; a key that is there twice is an error. */
export function manifestsOf(text: string): Manifest[] {
  return parseAllDocuments(text, { uniqueKeys: true, version: '1.1' }).flatMap((document) => {
    if (document.errors.length > 0) throw new Error(document.errors.map(({ message }) => message).join('\n'));
    const value: unknown = document.toJS();
    return value === null ? [] : [manifest.parse(value)];
  });
}

/** Checks manifests against the strict schemas of a Kubernetes version, in which a field that does not exist is an error. */
export class ManifestSchemas {
  readonly #folder: string;
  readonly #ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  readonly #known = new Map<string, ValidateFunction>();

  constructor(schemas: string, version: string) {
    this.#folder = join(schemas, `v${version}-local-strict`);
    this.#ajv.addSchema(this.#read('_definitions.json'));
  }

  /** What is wrong with a manifest; throws for a kind that this version does not have. */
  problems(given: Manifest): string[] {
    const { apiVersion, kind, metadata } = given;
    const [group = '', version] = apiVersion.includes('/') ? apiVersion.split('/') : ['', apiVersion];
    const parts = [kind.toLowerCase(), ...(group === '' ? [] : [group.split('.')[0]]), version];
    const file = `${parts.join('-')}.json`;
    const validate = this.#known.get(file) ?? this.#ajv.compile(this.#read(file));
    this.#known.set(file, validate);
    if (validate(given)) return [];
    return (validate.errors ?? []).map(
      ({ instancePath, message, params }) =>
        `${kind} ${metadata.name}${instancePath} ${message} ${JSON.stringify(params)}`,
    );
  }

  #read(file: string): object {
    return JSON.parse(readFileSync(join(this.#folder, file), 'utf8')) as object;
  }
}
