import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { bearerToken } from '../../auth/caller.js';
import { tokenRefused } from '../../auth/claims.js';
import { addRoute, type Call } from '../../http/route.js';
import { SyncError } from '../../lib/errors.js';
import type { Places } from '../../lib/net/places.js';
import { endpointOf, isLoopback } from '../../lib/net/proxy.js';
import { redactUrl } from '../../lib/observe/log.js';
import { ByteCache } from '../../lib/run/byte-cache.js';
import { peerDataConfig, type ServerDataSources } from '../../wire/data.js';
import { parseDocPath } from '../../wire/doc-path.js';
import { PROTOCOL_HEADER, PROTOCOL_VERSION } from '../../wire/frames.js';
import type { FoldedEntry, FoldReader } from '../log/update-log.js';
import type { ServerOptions } from '../options.js';
import type { MayHave } from '../publish/may-have.js';
import { extendedConfigText, opalConfigText } from '../publish/update-text.js';
import { withEnded } from './data-updates.js';
import { isShown, topicsQuery } from './paging.js';

type DataConfigOptions = Pick<ServerOptions, 'dataSources' | 'updatesRetained'>;

const configQuery = z.object({
  origin: z.enum(['base', 'update']).optional().describe('base: only base entries; update: only updates'),
  topics: topicsQuery.optional().describe('Only entries of these topics; separated by commas'),
});
type ConfigQuery = z.infer<typeof configQuery>;

interface ConfigTextsDeps {
  readonly mayHave: MayHave;
  readonly policyHead: () => string | undefined;
  /** Where the served commit has data; undefined while that is not known. */
  readonly dataPlaces: () => Places | undefined;
}

/** `GET /data/config` (specification "Sync server"; opal-protocol P2.3). */
export function dataConfigRoute(
  app: FastifyInstance,
  options: DataConfigOptions,
  { updateLog: log, ...deps }: ConfigTextsDeps & { updateLog: FoldReader },
): void {
  const texts = new ConfigTexts(options, { log, ...deps });
  addRoute(
    app,
    {
      method: 'GET',
      path: '/data/config',
      access: 'token',
      limited: 'own',
      tag: 'Data',
      summary: 'Base entries and retained updates, in order',
      query: configQuery,
      responses: {
        200: { description: 'The entries', schema: peerDataConfig },
        307: { description: 'To the external data source API, with the token of the caller' },
      },
    },
    async (call) => {
      const { request, reply, query, caller } = call;
      const { dataSources } = options;
      // The external API does not know updates published here.
      if (dataSources !== undefined && 'external_source_url' in dataSources && query.origin !== 'update') {
        return redirectToSource(dataSources.external_source_url, call);
      }
      const extended = speaksOurs(request);
      if (extended) reply.header(PROTOCOL_HEADER, String(PROTOCOL_VERSION));
      const { permittedTopics: permitted } = caller;
      const known = texts.known(extended, permitted, query);
      const text = known ?? (await app.turnOf(request).run(async () => texts.get(extended, permitted, query)));
      return reply.type('application/json').send(text);
    },
  );
}

/** Whether the caller offered our extensions: others never see these fields (design D29). */
function speaksOurs(request: FastifyRequest): boolean {
  const offered = request.headers[PROTOCOL_HEADER];
  return typeof offered === 'string' && Number(offered) >= 1;
}

/** Memory for responses with only some of the entries. */
const PARTIAL_TEXTS_BYTES = 32 * 1024 * 1024;

/**
 * The responses of `GET /data/config`, printed once per state of the log: after a restart of the
 * server all clients request it at once. Callers with the same permitted and requested topics share
 * the same bytes.
 */
class ConfigTexts {
  readonly #options: DataConfigOptions;
  readonly #log: FoldReader;
  readonly #mayHave: MayHave;
  readonly #policyHead: () => string | undefined;
  readonly #dataPlaces: () => Places | undefined;
  #head = -1;
  #commit: string | undefined;
  #version = -1;
  readonly #whole = new Map<boolean, Buffer>();
  #partial = partialTexts();

  constructor(options: DataConfigOptions, deps: ConfigTextsDeps & { log: FoldReader }) {
    this.#options = options;
    this.#log = deps.log;
    this.#mayHave = deps.mayHave;
    this.#policyHead = deps.policyHead;
    this.#dataPlaces = deps.dataPlaces;
  }

  /** A printed text. `permitted`: topics of the caller; entries of others are left out. */
  known(extended: boolean, permitted: ReadonlySet<string> | undefined, query: ConfigQuery): Buffer | undefined {
    this.#refresh();
    if (isWhole(permitted, query)) return this.#whole.get(extended);
    return this.#partial.get(keyOf(extended, permitted, query))?.text;
  }

  /** As {@link known}; prints what is not known. */
  get(extended: boolean, permitted: ReadonlySet<string> | undefined, query: ConfigQuery): Buffer {
    const known = this.known(extended, permitted, query);
    if (known !== undefined) return known;
    if (isWhole(permitted, query)) {
      const text = this.#print(extended, this.#shown(this.#with(extended, this.#log.fold())));
      this.#whole.set(extended, text);
      return text;
    }
    const { topics, origin } = query;
    const key = keyOf(extended, permitted, query);
    const isWanted = (folded: FoldedEntry): boolean =>
      (origin === undefined || folded.origin === origin) && isShown(folded.entry.topics, permitted, topics);
    const named = topics ?? permitted;
    const fold = named === undefined ? this.#log.fold() : this.#log.foldOn(named);
    const text = this.#print(extended, this.#shown(this.#with(extended, fold).filter(isWanted)));
    this.#partial.set(key, { text, bytes: text.length + 2 * key.length });
    return text;
  }

  #refresh(): void {
    const { head } = this.#log;
    // The fold can change without the head: updates expire.
    const version = this.#log.foldVersion();
    const commit = this.#policyHead();
    if (this.#head === head && this.#version === version && this.#commit === commit) return;
    this.#commit = commit;
    this.#whole.clear();
    this.#partial = partialTexts();
    this.#head = head;
    this.#version = version;
  }

  /**
   * An OPAL client does not say what it holds, and compares nothing: it hears of late deletions,
   * too, where no commit has data now.
   */
  #with(extended: boolean, fold: readonly FoldedEntry[]): readonly FoldedEntry[] {
    if (extended) return fold;
    const places = this.#dataPlaces();
    const isFree = ({ entry }: FoldedEntry): boolean => places?.overlap(parseDocPath(entry.dst_path)) !== true;
    return withEnded(fold, this.#log.ended().filter(isFree));
  }

  /** Without updates that repeat a base entry. */
  #shown(entries: readonly FoldedEntry[]): readonly FoldedEntry[] {
    const { updatesRetained } = this.#options;
    return entries.filter(
      ({ origin, entry }) => origin === 'base' || (updatesRetained && !this.#log.repeatsBase(entry)),
    );
  }

  #print(extended: boolean, fold: readonly FoldedEntry[]): Buffer {
    if (!extended) return Buffer.from(opalConfigText(fold, this.#mayHave));
    const baseSet = this.#options.dataSources !== undefined;
    const { epoch, head } = this.#log;
    // Without updates this is not a complete fold. Without an epoch, clients compare nothing and so
    // remove nothing (design D11).
    return Buffer.from(
      extendedConfigText(fold, this.#options.updatesRetained ? { epoch, head, baseSet } : { baseSet }),
    );
  }
}

/** Whether the caller gets every entry. */
function isWhole(permitted: ReadonlySet<string> | undefined, { topics, origin }: ConfigQuery): boolean {
  return permitted === undefined && topics === undefined && origin === undefined;
}

function keyOf(extended: boolean, permitted: ReadonlySet<string> | undefined, { topics, origin }: ConfigQuery): string {
  const listed = (names: ReadonlySet<string> | undefined): string[] | null => (names ? [...names].sort() : null);
  return JSON.stringify([extended, listed(permitted), listed(topics), origin ?? null]);
}

function partialTexts(): ByteCache<{ text: Buffer; bytes: number }> {
  return new ByteCache(PARTIAL_TEXTS_BYTES, ({ bytes }) => bytes);
}

/**
 * Redirects (307) to the operator's API with the caller's token as `token` (specification
 * authentication.3). The API identifies the caller by it; without a token the response is 401.
 */
function redirectToSource(sourceUrl: string, { request, reply }: Call<ConfigQuery, unknown>): FastifyReply {
  const token = bearerToken(request.headers.authorization);
  if (token === undefined) {
    throw tokenRefused('access token was not provided');
  }
  const target = new URL(sourceUrl);
  target.searchParams.set('token', token);
  return reply.code(307).header('location', target.href).send();
}

/**
 * Checks that the external data source uses HTTPS, since clients are redirected there with their
 * token in the query (specification authentication.3). Allows HTTP for loopback hosts, or with
 * SYNC_ALLOW_INSECURE_EXTERNAL_SOURCE. Throws `config_invalid`.
 */
export function checkExternalSource(
  sources: ServerDataSources | undefined,
  { allowInsecure }: { allowInsecure: boolean },
): void {
  if (sources === undefined || !('external_source_url' in sources) || allowInsecure) return;
  const url = new URL(sources.external_source_url);
  if (url.protocol === 'https:' || isLoopback(endpointOf(url).host)) return;
  throw new SyncError(
    'config_invalid',
    `SYNC_DATA_CONFIG_SOURCES: external_source_url must be https, since clients send their tokens there (is ${redactUrl(url.href)}); SYNC_ALLOW_INSECURE_EXTERNAL_SOURCE=true takes http all the same`,
  );
}
