import type { IncomingHttpHeaders } from 'node:http';
import { errorText, SyncError } from '../../lib/errors.js';
import { inSteps } from '../../lib/run/async.js';
import type { DecisionSource, OpaResponse } from '../types.js';
import { EngineRefusal } from '../vocabulary.js';
import { hasTooManyDigits, longBody, SHORT_BODY_BYTES } from './body-reader.js';
import { type PlainQuestion, plainQuestion } from './plain-question.js';
import {
  acceptsGzip,
  BAD_REQUEST,
  bareAnswer,
  dataAnswer,
  errorAnswer,
  gzipped,
  healthAnswer,
  INFLATES_TOO_LARGE,
  inflated,
  isWorthGzip,
  type RestAnswer,
  TOO_MANY_DIGITS,
  TOO_MANY_VALUES,
} from './rest-answers.js';
import { hasBrokenEscape, type RestRoute, type RestTarget, targetUrl } from './rest-target.js';

/** A request that is let in, with its whole body. */
export interface RestRequest {
  readonly method: 'GET' | 'POST';
  readonly target: RestTarget;
  readonly route: RestRoute;
  readonly headers: IncomingHttpHeaders;
  /** Undefined with GET. */
  readonly body: Buffer | undefined;
}

/** What {@link RestApi} asks. */
interface RestApiDeps {
  readonly source: DecisionSource;
  /** Whether the engine holds a policy. */
  isReady(): boolean;
  /** The text of `/metrics`. */
  metrics(): string;
}

/** Request headers that OPA's handler reads. */
const READ_HEADERS = ['accept', 'accept-encoding', 'content-encoding', 'content-type'] as const;
/** Response headers that are ours to write. */
const OWN_HEADERS: ReadonlySet<string> = new Set(['connection', 'content-length', 'date', 'transfer-encoding']);
/** The routes whose queries the caller writes. */
const FREE: ReadonlySet<RestRoute['kind']> = new Set(['query', 'compile']);
/** The routes whose bodies OPA unpacks. */
const UNPACKED: ReadonlySet<RestRoute['kind']> = new Set(['data', 'main', 'compile']);

/**
 * OPA's REST API of a {@link DecisionSource}: a plain question is answered here, with OPA's bytes;
 * health and metrics too, so that they wake nobody; everything else by OPA's own handler.
 */
export class RestApi {
  readonly #deps: RestApiDeps;
  readonly #bodyBytes: number;
  readonly #health: RestHealth;

  /** `bodyBytes`: the most bytes that a compressed body may unpack to. */
  constructor(bodyBytes: number, deps: RestApiDeps) {
    this.#bodyBytes = bodyBytes;
    this.#deps = deps;
    this.#health = new RestHealth(deps);
  }

  /**
   * Answers a request. Never rejects because of what is asked: an engine that cannot answer is a
   * response too.
   */
  async answer(request: RestRequest): Promise<RestAnswer> {
    try {
      return await this.#answer(request);
    } catch (error) {
      return failureAnswer(error);
    }
  }

  async #answer(request: RestRequest): Promise<RestAnswer> {
    const { route, target } = request;
    if (route.kind === 'metrics' && route.path === '')
      return { status: 200, headers: METRICS_TYPE, body: this.#deps.metrics() };
    if (route.kind === 'health') {
      if (route.path === '') return this.#health.simple(target.query);
      const answer = await this.#health.ofPolicy(route.path);
      if (answer !== undefined) return answer;
    }
    if (hasBrokenEscape(target.path)) return BAD_REQUEST;
    const body = await this.#unpacked(request);
    if (body === 'too large') return INFLATES_TOO_LARGE;
    const isLong = body !== undefined && body.bytes.length > SHORT_BODY_BYTES;
    const kind = isLong ? await inSteps(longBody(body.bytes)) : 'json';
    if (kind === 'too many values') return TOO_MANY_VALUES;
    if (kind === 'too many digits' || hasTooManyDigits(target.query)) return TOO_MANY_DIGITS;
    const question = kind === 'json' ? plainQuestion(route, target, body) : undefined;
    const plain = question === undefined ? undefined : await this.#decide(question);
    if (plain === undefined) return this.#ask(request);
    return acceptsGzip(request.headers['accept-encoding']) && isWorthGzip(plain) ? gzipped(plain) : plain;
  }

  /** The body with its headers, unpacked where OPA unpacks it. */
  async #unpacked({ body, headers, route }: RestRequest) {
    if (body === undefined) return undefined;
    const coding = headers['content-encoding'];
    if (coding?.includes('gzip') !== true || !UNPACKED.has(route.kind)) return { bytes: body, headers };
    const bytes = await inflated(body, this.#bodyBytes);
    if (bytes === 'too large') return bytes;
    if (bytes === undefined) return { bytes: body, headers };
    return { bytes, headers: { ...headers, 'content-encoding': undefined } };
  }

  /** Undefined: OPA's handler has more to say about it than its result. */
  async #decide({ api, path, input, warns }: PlainQuestion): Promise<RestAnswer | undefined> {
    try {
      const { text } = await this.#deps.source.decide({ path, input });
      if (api === 'v1') return dataAnswer(text, warns);
      return text === undefined ? undefined : bareAnswer(text);
    } catch (error) {
      if (error instanceof EngineRefusal) return undefined;
      throw error;
    }
  }

  async #ask({ method, target, route, headers, body }: RestRequest): Promise<RestAnswer> {
    const read = READ_HEADERS.flatMap((name) => (headers[name] === undefined ? [] : [[name, String(headers[name])]]));
    const request = { method, url: targetUrl(target), headers: Object.fromEntries(read), body };
    return answerOf(await this.#deps.source.http(request, FREE.has(route.kind)));
  }
}

const PAGE_TYPE: readonly [string, string] = ['Content-Type', 'text/html; charset=utf-8'];
const METRICS_TYPE: readonly string[] = [
  'Content-Type',
  'text/plain; version=0.0.4; charset=utf-8; escaping=underscores',
];

function answerOf({ status, headers, body }: OpaResponse): RestAnswer {
  const kept = Object.entries(headers).filter(([name]) => !OWN_HEADERS.has(name.toLowerCase()));
  const hasType = body.length === 0 || kept.some(([name]) => name.toLowerCase() === 'content-type');
  // Only OPA's own page has no type: Go's server finds out.
  return { status, headers: [...kept, ...(hasType ? [] : [PAGE_TYPE])].flat(), body };
}

/** The engine has no answer: that is not a decision, so it is an error in OPA's form. */
function failureAnswer(error: unknown): RestAnswer {
  const known = error instanceof SyncError ? error : undefined;
  const wait = known?.retryAfterSeconds;
  const more = wait === undefined ? [] : ['Retry-After', String(Math.ceil(wait))];
  return errorAnswer(known?.status ?? 500, 'internal_error', errorText(error), more);
}

/** What {@link RestHealth} asks. */
interface RestHealthDeps {
  readonly source: Pick<DecisionSource, 'decide'>;
  /** Whether the engine holds a policy: what OPA calls an activated bundle. */
  isReady(): boolean;
}

/** Names that OPA prints with a dot before them. */
const NAMES = /^(?:\/[A-Za-z_]\w*)+$/;

/** OPA's `/health`, without OPA's own server: health checks must not keep it in memory. */
export class RestHealth {
  readonly #deps: RestHealthDeps;
  #wasReady = false;

  constructor(deps: RestHealthDeps) {
    this.#deps = deps;
  }

  /** `/health`, with `bundles` and `plugins`. */
  simple(query: string): RestAnswer {
    if (query === '' || this.#deps.isReady()) return healthAnswer(undefined);
    const params = new URLSearchParams(query);
    if (isSet(params, 'bundle') || isSet(params, 'bundles'))
      return healthAnswer('one or more bundles are not activated');
    const watchesPlugins = isSet(params, 'plugins') && !params.getAll('exclude-plugin').includes('bundle');
    return healthAnswer(watchesPlugins ? 'one or more plugins are not up' : undefined);
  }

  /**
   * `/health/<path>`: the decision `system.health.<path>`. Undefined if the path is not plain
   * names; `path` has its leading slash.
   */
  async ofPolicy(path: string): Promise<RestAnswer | undefined> {
    if (!NAMES.test(path)) return undefined;
    const isReady = this.#deps.isReady();
    this.#wasReady ||= isReady;
    const input = { plugin_state: { bundle: isReady ? 'OK' : 'NOT_READY' }, plugins_ready: this.#wasReady };
    const { text } = await this.#deps.source.decide({ path: `system/health${path}`, input: JSON.stringify(input) });
    if (text === 'true') return healthAnswer(undefined);
    const check = `health check (data.system.health${path.replaceAll('/', '.')})`;
    return healthAnswer(`${check} ${text === undefined ? 'was undefined' : 'returned unexpected value'}`);
  }
}

/** A flag of OPA's REST API: there without a value, or true. */
function isSet(params: URLSearchParams, name: string): boolean {
  const values = params.getAll(name);
  return (values.length === 1 && values[0] === '') || values.some((value) => value.toLowerCase() === 'true');
}
