import { Agent, request } from 'undici';
import * as z from 'zod';
import { type EngineProblem, EngineRefusal, opaProblem } from '../../../embedded/vocabulary.js';
import { SyncError } from '../../../lib/errors.js';
import { checkJson, MANY_JSON_VALUES, parseJson } from '../../../lib/json/json.js';
import { elements, jsonOrUndefined, members, objectText } from '../../../lib/json/json-text.js';
import { outermost } from '../../../lib/json/path-tree.js';
import { httpConnector } from '../../../lib/net/connect.js';
import { tlsAdvice } from '../../../lib/net/connect-failure.js';
import type { OutgoingTls } from '../../../lib/net/tls.js';
import { redactUrl } from '../../../lib/observe/log.js';
import { withAnySignal } from '../../../lib/run/async.js';
import { type DocPath, docPathPointer, docPathText } from '../../../wire/doc-path.js';
import { type Body, isObject, leafOf, membersOf, type Node, nodeAt } from '../../../wire/json-node.js';
import { dataRef } from '../../../wire/rego-ref.js';
import type { DataOp } from '../../desired/layers.js';
import type { ArrivingBody } from '../../fetch/arriving-file.js';
import { type EngineAuth, fixedAuth, withoutCredentials } from './engine-auth.js';
import { dataUrl, patchPointer, readUrl, writeProblem } from './opa-places.js';
import { Upload } from './upload.js';

/** One error of OPA, in responses, in bundle status and on the command line. */
export const opaError = z.object({
  message: z.string(),
  location: z.object({ file: z.string(), row: z.number() }).partial().nullish(),
});

/** OPA's error body. */
const errorBody = z.object({
  code: z.string().optional(),
  message: z.string().optional(),
  errors: z.array(opaError).optional(),
});

/** Converts OPA's errors to problems; a collision of rule and document has the document's path. */
export function opaProblems(
  errors: readonly {
    message: string;
    location?: { file?: string | undefined; row?: number | undefined } | null | undefined;
  }[],
): EngineProblem[] {
  return errors.map(({ message, location }) => opaProblem({ message, ...location }));
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** One response of the engine. */
interface Answer {
  readonly status: number;
  readonly text: string;
}

/** One operation of a transaction, its value as written. */
export interface Change {
  readonly op: 'add' | 'remove' | 'replace';
  readonly path: DocPath;
  readonly text?: string | undefined;
}

/** Options of {@link OpaRest}. */
export interface OpaRestOptions {
  /** Base address without `/v1`. */
  readonly url: string;
  readonly timeoutMs: number;
  /** Our credentials. Default: none. */
  readonly auth?: EngineAuth;
  /** Trusted authorities and our certificate. Default: the well-known authorities, none. */
  readonly tls?: OutgoingTls;
}

/** The part of OPA's REST API that the client uses (opal-protocol P6.1). */
export class OpaRest {
  readonly #url: string;
  /** The address without user name and password, for messages. */
  readonly #shownUrl: string;
  readonly #timeoutMs: number;
  readonly #auth: EngineAuth;
  readonly #agent: Agent;
  /** Parents that are known to exist, so that each is checked once. */
  readonly #parents = new Set<string>();
  /**
   * The prepared upload: one at a time, so that many new documents do not fill the engine's memory.
   */
  #upload: { readonly url: string; readonly request: Upload<Answer> } | undefined;

  constructor(options: OpaRestOptions) {
    this.#url = options.url;
    this.#shownUrl = redactUrl(options.url).replace(/\/$/, '');
    this.#timeoutMs = options.timeoutMs;
    this.#auth = options.auth ?? fixedAuth();
    this.#agent = new Agent({
      connect: httpConnector({ timeoutMs: Math.min(options.timeoutMs, 10_000), tls: options.tls }),
      headersTimeout: 0,
      bodyTimeout: options.timeoutMs,
    });
  }

  async close(): Promise<void> {
    this.#upload?.request.drop();
    await this.#agent.destroy();
  }

  /** Discards all knowledge of the engine's content. */
  reset(): void {
    this.#parents.clear();
    this.#upload?.request.drop();
  }

  /** See `PolicyEngine.write`. */
  async write(ops: readonly DataOp[], signal: AbortSignal): Promise<void> {
    const [first, ...more] = ops;
    if (first === undefined) return;
    for (const op of ops) assertWritable(op.path);
    for (const op of ops) this.#forgetParents(op.path);
    if (more.length === 0) {
      await this.#writeOne(first, signal);
      return;
    }
    await this.#ensureParents(ops, signal);
    const answer = await this.#patch(
      ops.map((op) => patchOp(op.op === 'put' ? 'add' : 'remove', op.path, op.op === 'put' ? op.text() : undefined)),
      signal,
    );
    if (answer.status === 204) return;
    // A document to remove or a parent is missing: write one by one, each in its own transaction.
    if (answer.status === 404) await this.#writeEach(ops, signal);
    else this.#fail(answer, 'PATCH /v1/data');
  }

  /**
   * See `PolicyEngine.write`: what others have put there, and what rules make of it, is asked for
   * first.
   */
  async removeShells(shells: readonly DocPath[], signal: AbortSignal): Promise<void> {
    const known = new Set(shells.map(docPathPointer));
    const isShell = (path: DocPath, node: Node | undefined): boolean =>
      known.has(docPathPointer(path)) &&
      isObject(node) &&
      [...membersOf(node)].every(([name, member]) => isShell([...path, name], member));
    const gone: DocPath[] = [];
    const look = (path: DocPath, node: Node | undefined): void => {
      if (isShell(path, node)) gone.push(path);
      else if (known.has(docPathPointer(path)) && isObject(node))
        for (const [name, member] of membersOf(node)) look([...path, name], member);
    };
    for (const path of outermost(shells)) {
      // A path that no URL has was never written.
      if (writeProblem(path) === undefined) look(path, await this.#storedAt(path, signal));
    }
    for (const path of gone) {
      this.#forgetParents(path);
      await this.#writeOne({ op: 'remove', path }, signal);
    }
  }

  /**
   * What is at a path; undefined where there is nothing, or a rule below fails: then it is no
   * shell.
   */
  async #storedAt(path: DocPath, signal: AbortSignal): Promise<Node | undefined> {
    try {
      return nodeAt(leafOf((await this.getText(path, signal)).trim()), ['result']);
    } catch (error) {
      if (error instanceof EngineRefusal) return undefined;
      throw error;
    }
  }

  /** See `PolicyEngine.prepareUpload`. */
  prepareUpload(path: DocPath, arriving: ArrivingBody): void {
    const url = dataUrl(path);
    if (this.#upload !== undefined || url === undefined) return;
    const request = new Upload(arriving, async (body, signal) => {
      const authorization = await this.#auth.authorization(signal);
      return this.#send('PUT', url, signal, body, headersOf(authorization, 'application/json'));
    });
    const upload = { url, request };
    this.#upload = upload;
    void request.ended.then(() => {
      if (this.#upload === upload) this.#upload = undefined;
    });
  }

  /** Returns the response to a prepared upload; undefined if there is none, or it failed. */
  async #finishUpload(url: string, body: Body, signal: AbortSignal): Promise<Answer | undefined> {
    const upload = this.#upload;
    if (upload?.url !== url || !upload.request.isOf(body)) return undefined;
    this.#upload = undefined;
    const answer = await this.#answered('PUT', url, signal, (within) => upload.request.finish(within));
    return answer?.status === 401 ? undefined : answer; // with newer credentials, if there are any
  }

  async #writeEach(ops: readonly DataOp[], signal: AbortSignal): Promise<void> {
    for (const [index, op] of ops.entries()) {
      try {
        await this.#writeOne(op, signal);
      } catch (error) {
        if (error instanceof EngineRefusal && index > 0) throw new EngineRefusal(error.message, error.problems, true);
        throw error;
      }
    }
  }

  async #writeOne(op: DataOp, signal: AbortSignal): Promise<void> {
    const url = dataUrl(op.path);
    if (url === undefined) {
      await this.#patchOne(op, signal);
      return;
    }
    if (op.op === 'remove') {
      const answer = await this.#call('DELETE', url, signal);
      if (answer.status !== 204 && answer.status !== 404) this.#fail(answer, `DELETE ${url}`);
      return;
    }
    const { body } = op;
    const content = body === undefined ? op.text() : () => body.stream();
    const answer =
      (body && (await this.#finishUpload(url, body, signal))) ??
      (await this.#call('PUT', url, signal, content, 'application/json'));
    if (answer.status !== 204) this.#fail(answer, `PUT ${url}`);
  }

  /** Writes at a path that no URL leads to. */
  async #patchOne(op: DataOp, signal: AbortSignal): Promise<void> {
    if (op.op === 'put') {
      await this.#add(op.path, op.text(), signal);
      return;
    }
    const answer = await this.#patch([patchOp('remove', op.path)], signal);
    if (answer.status !== 204 && answer.status !== 404) this.#fail(answer, `PATCH ${docPathText(op.path)}`);
  }

  /** Adds a value, and with it the parents that are missing, which PATCH does not create. */
  async #add(path: DocPath, text: string, signal: AbortSignal): Promise<void> {
    let depth = path.length;
    while (depth > 1 && !(await this.#isThere(path.slice(0, depth - 1), signal))) depth--;
    const value = path.slice(depth).reduceRight((inner, segment) => objectText([[segment, inner]]), text);
    const answer = await this.#patch([patchOp('add', path.slice(0, depth), value)], signal);
    if (answer.status !== 204) this.#fail(answer, `PATCH ${docPathText(path)}`);
  }

  /** Creates missing parents of a transaction's documents, which PATCH would refuse. */
  async #ensureParents(ops: readonly DataOp[], signal: AbortSignal): Promise<void> {
    const parents = ops.filter((op) => op.op === 'put' && op.path.length > 1).map((op) => op.path.slice(0, -1));
    for (const [name, path] of new Map(parents.map((parent) => [docPathPointer(parent), parent]))) {
      if (this.#parents.has(name)) continue;
      if (await this.#ensureParent(path, signal)) this.#parents.add(name);
    }
  }

  /**
   * Creates a parent if it is missing; false if it cannot be a document (a rule, a bundle root, a
   * list): the write reports it.
   */
  async #ensureParent(path: DocPath, signal: AbortSignal): Promise<boolean> {
    const url = dataUrl(path);
    if (url === undefined) {
      if (!(await this.#isThere(path, signal))) await this.#add(path, '{}', signal);
      return true;
    }
    const answer = await this.#call('PUT', url, signal, '{}', 'application/json', { 'if-none-match': '*' });
    if (answer.status >= 500) this.#fail(answer, `PUT ${url}`);
    return answer.status === 204 || answer.status === 304; // 304: it exists
  }

  #forgetParents(path: DocPath): void {
    const removed = docPathPointer(path);
    for (const parent of this.#parents)
      if (parent === removed || parent.startsWith(`${removed}/`)) this.#parents.delete(parent);
  }

  #patch(ops: readonly string[], signal: AbortSignal): Promise<Answer> {
    return this.#call('PATCH', '/v1/data', signal, `[${ops.join(',')}]`, 'application/json-patch+json');
  }

  /**
   * Makes changes in one transaction, whose parents are there. Rejects with {@link EngineRefusal}
   * where a rule has the place of one; returns false where OPA refuses one otherwise. Then nothing
   * changed.
   */
  async change(changes: readonly Change[], signal: AbortSignal): Promise<boolean> {
    if (changes.some(({ path }) => writeProblem(path) !== undefined)) return false;
    const answer = await this.#patch(
      changes.map(({ op, path, text }) => patchOp(op, path, text)),
      signal,
    );
    if (answer.status === 204) return true;
    const mayBeOtherwise = isVerdict(answer.status) && opaProblem({ message: answer.text }).conflictPath === undefined;
    return mayBeOtherwise ? false : this.#fail(answer, 'PATCH /v1/data');
  }

  /**
   * Replaces an existing document if there is a value at `guard`; otherwise returns false and
   * changes nothing. OPA runs both in one transaction.
   */
  async replace(path: DocPath, text: string, signal: AbortSignal, guard = path): Promise<boolean> {
    const guarded = guard === path ? [] : [patchOp('replace', guard, 'true')];
    const answer = await this.#patch([...guarded, patchOp('replace', path, text)], signal);
    if (answer.status !== 204 && answer.status !== 404) this.#fail(answer, 'PATCH /v1/data');
    return answer.status === 204;
  }

  /**
   * Returns OPA's response for a path, as text; of a query where no URL is read as exactly this
   * path.
   */
  async getText(path: DocPath, signal: AbortSignal): Promise<string> {
    const url = readUrl(path);
    if (url === undefined) {
      const value = await this.#evaluate(dataRef(path), signal);
      return value === undefined ? '{}' : `{"result":${value}}`;
    }
    const answer = await this.#call('GET', url, signal);
    if (answer.status !== 200) this.#failRead(answer, `GET ${url}`);
    return answer.text;
  }

  /** OPA itself cannot evaluate what is at this path: that is no failure of the engine. */
  #failRead(answer: Answer, what: string): never {
    const { code, message } = errorBody.safeParse(jsonOrUndefined(answer.text)).data ?? {};
    if (answer.status !== 500 || code === undefined) this.#fail(answer, what);
    const text = `${what} answered ${answer.status}: ${message ?? code}`;
    throw new EngineRefusal(text, [{ message: text }]);
  }

  /** Whether there is a document, which a put below it needs. */
  async #isThere(path: DocPath, signal: AbortSignal): Promise<boolean> {
    return (await this.#evaluate(`count([found | found = ${dataRef(path)}])`, signal)) !== '0';
  }

  /** Returns the value of an expression as OPA prints it; undefined if it is undefined. */
  async #evaluate(expression: string, signal: AbortSignal): Promise<string | undefined> {
    const query = JSON.stringify({ query: `x = ${expression}` });
    const answer = await this.#call('POST', '/v1/query', signal, query, 'application/json');
    if (answer.status !== 200) this.#failRead(answer, `POST /v1/query of ${expression}`);
    const result = members(answer.text.trim()).get('result');
    const [bindings] = result === undefined ? [] : elements(result);
    return bindings === undefined ? undefined : members(bindings).get('x');
  }

  /** Returns the document at a path, as text; undefined if there is none. */
  async getData(path: DocPath, signal: AbortSignal): Promise<string | undefined> {
    const text = (await this.getText(path, signal)).trim();
    checkJson(text);
    return members(text).get('result');
  }

  /** Returns ids and texts of the engine's modules. */
  async listPolicies(signal: AbortSignal): Promise<{ id: string; raw: string }[]> {
    const answer = await this.#call('GET', '/v1/policies', signal);
    if (answer.status !== 200) this.#fail(answer, 'GET /v1/policies');
    const list = z.object({ result: z.array(z.object({ id: z.string(), raw: z.string().default('') })).default([]) });
    return list.parse(parseJson(answer.text, { values: MANY_JSON_VALUES })).result;
  }

  async putPolicy(id: string, rego: string, signal: AbortSignal): Promise<void> {
    const answer = await this.#call('PUT', policyUrl(id), signal, rego, 'text/plain');
    if (answer.status !== 200) this.#fail(answer, `PUT ${policyUrl(id)}`);
  }

  /** Removes a module; ignores a missing one. */
  async deletePolicy(id: string, signal: AbortSignal): Promise<void> {
    const answer = await this.#call('DELETE', policyUrl(id), signal);
    if (answer.status !== 200 && answer.status !== 404) this.#fail(answer, `DELETE ${policyUrl(id)}`);
  }

  /**
   * Makes a call with our credentials; retries once if the engine rejected them and there are newer
   * ones.
   */
  async #call(
    method: Method,
    path: string,
    signal: AbortSignal,
    body?: string | (() => string | NodeJS.ReadableStream),
    contentType?: string,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    for (let attempt = 1; ; attempt++) {
      const authorization = await this.#auth.authorization(signal);
      const answer = await this.#callOnce(method, path, signal, typeof body === 'function' ? body() : body, {
        ...headers,
        ...headersOf(authorization, contentType),
      });
      if (answer.status !== 401 || attempt > 1 || !this.#auth.renew(authorization)) return answer;
    }
  }

  #callOnce(
    method: Method,
    path: string,
    signal: AbortSignal,
    body: string | NodeJS.ReadableStream | undefined,
    headers: Record<string, string>,
  ): Promise<Answer> {
    return this.#answered(method, path, signal, (within) => this.#send(method, path, within, body, headers));
  }

  /** Runs `ask` with the timeout. Converts failures to `engine_unreachable`. */
  async #answered<T>(
    method: Method,
    path: string,
    signal: AbortSignal,
    ask: (within: AbortSignal) => Promise<T>,
  ): Promise<T> {
    try {
      return await withAnySignal([signal], ask, this.#timeoutMs);
    } catch (cause) {
      signal.throwIfAborted();
      const why =
        cause instanceof Error && cause.name === 'TimeoutError'
          ? `did not answer ${method} ${path} within ${this.#timeoutMs} ms`
          : `cannot be reached for ${method} ${path}${tlsText(cause)}`;
      throw new SyncError('engine_unreachable', `the policy engine at ${this.#shownUrl} ${why}`, {
        cause,
        retryable: true,
      });
    }
  }

  async #send(
    method: Method,
    path: string,
    signal: AbortSignal,
    body: string | NodeJS.ReadableStream | AsyncIterable<Uint8Array> | undefined,
    headers: Record<string, string>,
  ): Promise<Answer> {
    const response = await request(`${this.#url}${path}`, {
      method,
      dispatcher: this.#agent,
      signal,
      // undici accepts any iterable (see its documentation of `dispatch`), its types do not.
      ...(body === undefined ? {} : { body: body as string | import('node:stream').Readable }),
      headers,
    });
    const text = await response.body.text();
    return withoutCredentials({ status: response.statusCode, text }, headers.authorization);
  }

  #fail(answer: Answer, what: string): never {
    // If it is not OPA's form (a proxy's page), the message has the raw text.
    const parsed = errorBody.safeParse(jsonOrUndefined(answer.text));
    const body = parsed.success ? parsed.data : {};
    const message = `${what} answered ${answer.status}: ${body.message ?? answer.text.slice(0, 200)}`;
    if (answer.status === 401 || answer.status === 403) {
      throw new SyncError('engine_unauthorized', `the policy engine does not let us in: ${message}`, {
        retryable: true,
      });
    }
    if (!isVerdict(answer.status)) throw new SyncError('engine_unreachable', message, { retryable: true });
    throw new EngineRefusal(
      message,
      body.errors === undefined ? problemsInText(body.message ?? message) : opaProblems(body.errors),
    );
  }
}

/**
 * Some responses list their problems in one text: `1 error occurred: file:2: rego_compile_error:
 * conflicting rule ...`.
 */
export function problemsInText(text: string): EngineProblem[] {
  const found = [...text.matchAll(/(?:^|[\n:] ?)([^\n:]+):(\d+): rego_\w+: (.*)/g)];
  if (found.length === 0) return [{ message: text }];
  return found.map(([, file, row, message]) => opaProblem({ message: message ?? text, file, row: Number(row) }));
}

/**
 * Throws {@link EngineRefusal} for a path that OPA would read as another one: it is never written.
 */
function assertWritable(path: DocPath): void {
  const problem = writeProblem(path);
  if (problem === undefined) return;
  const message = `the path ${JSON.stringify(docPathPointer(path))} ${problem}`;
  throw new EngineRefusal(message, [{ message }]);
}

/** One operation of a JSON patch. */
function patchOp(op: Change['op'], path: DocPath, value?: string): string {
  const at = `{"op":"${op}","path":${JSON.stringify(patchPointer(path))}`;
  return value === undefined ? `${at}}` : `${at},"value":${value}}`;
}

/** Whether another attempt with the same request would end alike: 429, 5xx and others may pass. */
function isVerdict(status: number): boolean {
  return (status >= 300 && status < 400) || VERDICTS.has(status);
}

/** Refusals of OPA, and of a proxy: the request, its path or its body is nothing for it. */
const VERDICTS: ReadonlySet<number> = new Set([400, 404, 405, 411, 413, 414, 415, 422, 431]);

function headersOf(authorization: string | undefined, contentType: string | undefined): Record<string, string> {
  return {
    ...(contentType === undefined ? {} : { 'content-type': contentType }),
    ...(authorization === undefined ? {} : { authorization }),
  };
}

function policyUrl(id: string): string {
  return `/v1/policies/${id.split('/').map(encodeURIComponent).join('/')}`;
}

function tlsText(cause: unknown): string {
  const advice = tlsAdvice(cause, 'SYNC_POLICY_STORE_TLS_CA');
  return advice === undefined ? '' : `: ${advice}`;
}
