import type { DecisionSource } from '../types.js';
import { healthAnswer, type RestAnswer } from './rest-answers.js';

/** What {@link RestHealth} asks. */
export interface RestHealthDeps {
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
   * `/health/<path>`: the decision `system.health.<path>`. Undefined if the path is not plain names; `path` has its leading slash.
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
