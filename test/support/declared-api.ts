import assert from 'node:assert/strict';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { type Answer, request } from './http.js';

/** One operation of an OpenAPI document. */
export interface Operation {
  /** `GET /callbacks/{key}`. */
  readonly name: string;
  readonly method: string;
  readonly path: string;
  /** It asks for a token. */
  readonly isGuarded: boolean;
  readonly takesBody: boolean;
  readonly responses: Readonly<Record<string, Response>>;
}

interface Response {
  readonly content?: Readonly<Record<string, { readonly schema?: object }>>;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, RawOperation>>>>;
  readonly components: object;
}

interface RawOperation {
  readonly security: readonly object[];
  readonly requestBody?: object;
  readonly responses: Readonly<Record<string, Response>>;
}

/** What a running program says of its API in `/openapi.json`. */
export interface DeclaredApi {
  readonly operations: readonly Operation[];
  /** Throws where an answer is not as declared: its status, its media type, its body. */
  hold(operation: Operation, answer: Answer, what: string): void;
}

/** Reads the declaration of the program at `url`. */
export async function declaredApi(url: string): Promise<DeclaredApi> {
  const { status, json } = await request(`${url}/openapi.json`);
  assert.equal(status, 200);
  const { paths, components } = json as Document;
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { security, requestBody, responses }]): Operation => {
      const name = `${method.toUpperCase()} ${path}`;
      const isGuarded = security.length > 0 && security.every((one) => Object.keys(one).length > 0);
      return { name, method: method.toUpperCase(), path, isGuarded, takesBody: requestBody !== undefined, responses };
    }),
  );
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  const checks = new Map<object, ValidateFunction>();
  const checkOf = (schema: object): ValidateFunction => {
    const check = checks.get(schema) ?? ajv.compile({ ...schema, components });
    checks.set(schema, check);
    return check;
  };

  function holdBody(declared: NonNullable<Response['content']>, answer: Answer, what: string): void {
    const type = (answer.headers.get('content-type') ?? '').replace(/;.*$/, '');
    const found = Object.entries(declared).find(([name]) => name === '*/*' || name === type);
    assert(found !== undefined, `${what} is of type ${type || 'none'}, declared: ${Object.keys(declared)}`);
    const { schema } = found[1];
    if (schema === undefined) {
      assert(answer.text.length > 0, `${what} has no body`);
      return;
    }
    const check = checkOf(schema);
    assert(check(answer.json), `${what}: ${ajv.errorsText(check.errors)}\n${answer.text.slice(0, 1000)}`);
  }

  return {
    operations,
    hold: ({ responses }, answer, what) => {
      const response = responses[answer.status];
      const declared = Object.keys(responses).join(', ');
      assert(response !== undefined, `${what} is answered ${answer.status}, declared: ${declared}\n${answer.text}`);
      if (response.content === undefined) assert.equal(answer.text, '', `${what} has a body, none is declared`);
      else holdBody(response.content, answer, what);
    },
  };
}
