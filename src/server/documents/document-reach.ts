import { ALL_TOPICS } from '../../wire/topics.js';
import type { KnownClient } from '../clients/known-client.js';

/** Segments of a path that a client names as failing. */
const MAX_SEGMENTS = 128;

/**
 * Why a client cannot write a document; `error`: undefined where the client only names the update.
 */
interface Refusal {
  readonly kind: string | undefined;
  readonly error: string | undefined;
}

/** The reach of a document. */
export interface Reach {
  /** How many get it. */
  readonly clients: number;
  /** How many of them cannot write it, or something below. */
  readonly refusedBy: number;
  /** The worst of their reasons, and how many have one of this kind; undefined: there is none. */
  readonly worst: (Refusal & { readonly clients: number }) | undefined;
}

/** Kinds of failures, the worst first; others, and those of clients that tell no kind, are less. */
const WORST: readonly (string | undefined)[] = ['refused', 'engine', 'source'];

/**
 * Who would get a document, and who cannot write it. Made once per request: a page asks for
 * hundreds of documents.
 */
export class DocumentReach {
  /** Places in the list of clients, by topic. */
  readonly #byTopic = new Map<string, number[]>();
  /** Those that get everything, or that may subscribe to more topics than are known. */
  readonly #everywhere: number[] = [];
  /** Places of clients by the path, or a path above, of what fails there. */
  readonly #failing = new Map<string, Map<number, Refusal>>();
  /** By the seq of an update that their engine refuses. */
  readonly #blocked = new Map<number, Map<number, Refusal>>();

  /** `clients`: with the topics that the caller may see. */
  constructor(clients: readonly KnownClient[]) {
    for (const [at, client] of clients.entries()) this.#add(client, at);
  }

  /** The reach of a document at `path`. */
  of(path: string, { topics, seqs }: { topics: Iterable<string>; seqs: Iterable<number> }): Reach {
    const concerned = new Set(this.#everywhere);
    for (const topic of topics) for (const at of this.#byTopic.get(topic) ?? []) concerned.add(at);
    const refusing = new Map(this.#failing.get(path));
    for (const seq of seqs) for (const [at, refusal] of this.#blocked.get(seq) ?? []) addWorse(refusing, at, refusal);
    const refusals = [...refusing].flatMap(([at, refusal]) => (concerned.has(at) ? [refusal] : []));
    return { clients: concerned.size, refusedBy: refusals.length, worst: worstOf(refusals) };
  }

  #add({ topics, topicsLeftOut, state }: KnownClient, at: number): void {
    if (topicsLeftOut > 0 || topics.includes(ALL_TOPICS)) this.#everywhere.push(at);
    else {
      for (const topic of topics) {
        const places = this.#byTopic.get(topic);
        if (places === undefined) this.#byTopic.set(topic, [at]);
        else places.push(at);
      }
    }
    for (const { path, kind, error } of state?.failing ?? []) {
      for (const place of withAbove(path)) addTo(this.#failing, place, at, { kind, error });
    }
    for (const seq of state?.blocked ?? []) addTo(this.#blocked, seq, at, BLOCKED);
  }
}

const BLOCKED: Refusal = { kind: 'refused', error: undefined };

function addTo<K>(places: Map<K, Map<number, Refusal>>, key: K, at: number, refusal: Refusal): void {
  const known = places.get(key);
  if (known === undefined) places.set(key, new Map([[at, refusal]]));
  else addWorse(known, at, refusal);
}

/** Keeps one refusal of each client: the worst, and of equal ones the first. */
function addWorse(refusals: Map<number, Refusal>, at: number, refusal: Refusal): void {
  const known = refusals.get(at);
  if (known === undefined || badnessOf(refusal) > badnessOf(known)) refusals.set(at, refusal);
}

function badnessOf({ kind }: Refusal): number {
  const place = WORST.indexOf(kind);
  return place === -1 ? 0 : WORST.length - place;
}

function worstOf(refusals: readonly Refusal[]): Reach['worst'] {
  const [first] = refusals;
  if (first === undefined) return undefined;
  const worst = refusals.reduce((most, one) => (badnessOf(one) > badnessOf(most) ? one : most), first);
  return { ...worst, clients: refusals.filter(({ kind }) => kind === worst.kind).length };
}

/**
 * A path as text with all paths above it; nothing for what is no path, such as the data
 * configuration.
 */
function withAbove(path: string): string[] {
  if (!path.startsWith('/')) return [];
  const segments = path.split('/').slice(1, MAX_SEGMENTS);
  if (path === '/') return ['/'];
  return ['/', ...segments.map((_, index) => `/${segments.slice(0, index + 1).join('/')}`)];
}
