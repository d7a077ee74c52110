import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import * as z from 'zod';
import { errorText, failureFields, SyncError } from '../../lib/errors.js';
import { parseJson } from '../../lib/json/json.js';
import type { Logger } from '../../lib/observe/log.js';
import { hexId } from '../../lib/run/hex-id.js';
import { ASKED_LEVELS, type AskAnswer, type AskRequest, answer } from '../../wire/client-ask.js';
import { ASK_KINDS } from '../../wire/session.js';
import { AskRoom } from '../clients/ask-room.js';
import { ASK_TIMES, busy, type ClientAsks, noAnswer, whyNotAsked } from '../clients/client-asks.js';
import type { KnownClient } from '../clients/known-client.js';
import type { Mail } from '../log/log-store.js';

export interface AskRelayOptions {
  /** Name of this instance. */
  readonly instance: string;
  /** How much longer another instance may take than a client of our own. Default: 2 s. */
  readonly wayMs?: number;
}

export interface AskRelayDeps {
  /** Undefined: there is only this instance. */
  readonly mail: Mail | undefined;
  readonly asks: Pick<ClientAsks, 'ask'>;
  /** The client of this instance with a key. */
  readonly clientOf: (key: string) => KnownClient | undefined;
  readonly log: Logger;
}

const compress = promisify(gzip);
const decompress = promisify(gunzip);

/** Asks carried out by others, and for others, at a time; at most half of them for details. */
const MAX_OPEN = 8;
const WAY_MS = 2000;
/** Longest mail, packed and unpacked. */
const MAX_PACKED = 150_000;
const MAX_UNPACKED = 200_000;

/** Failures that an instance tells. */
const CODES = ['client_away', 'client_not_askable', 'client_busy', 'client_no_answer'] as const;

const askMail = z.object({
  ask: z.object({
    id: z.string().max(64),
    from: z.string().max(100),
    to: z.string().max(100),
    client: z.string().max(2000),
    kind: z.enum(ASK_KINDS),
    level: z.enum(ASKED_LEVELS).optional(),
  }),
});
const answerMail = z.object({
  answer: z.object({
    id: z.string().max(64),
    to: z.string().max(100),
    answer: answer.optional(),
    failure: z
      .object({
        code: z.enum(CODES),
        message: z.string().max(1000),
      })
      .optional(),
  }),
});
const anyMail = z.union([askMail, answerMail]);
type AskMail = z.infer<typeof askMail>['ask'];
type AnswerMail = z.infer<typeof answerMail>['answer'];

interface Waiting {
  end(outcome: AskAnswer | SyncError): void;
}

/**
 * Asks a client that is connected to another instance, by mail over the backbone, and does so for
 * the others. Mail is trusted as the backbone is.
 */
export class AskRelay {
  readonly #options: Required<AskRelayOptions>;
  readonly #deps: AskRelayDeps;
  readonly #waiting = new Map<string, Waiting>();
  /** Asks under way by instance, client and request. */
  readonly #shared = new Map<string, Promise<AskAnswer>>();
  readonly #room = new AskRoom(MAX_OPEN);
  readonly #roomForOthers = new AskRoom(MAX_OPEN);

  constructor(options: AskRelayOptions, deps: AskRelayDeps) {
    this.#options = { wayMs: WAY_MS, ...options };
    this.#deps = deps;
  }

  /** Listens for mail until the signal aborts. */
  run(signal: AbortSignal): void {
    const stop = this.#deps.mail?.watch((text) => {
      this.#take(text).catch((error: unknown) =>
        this.#deps.log.debug({ error: errorText(error) }, 'mail of another instance is not as documented'),
      );
    });
    if (stop === undefined) return;
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
  }

  /** Asks a client, wherever it is connected. Rejects as {@link ClientAsks.ask} does. */
  async ask(client: KnownClient, request: AskRequest): Promise<AskAnswer> {
    const { mail, asks } = this.#deps;
    if (client.instance === this.#options.instance || mail === undefined) return asks.ask(client, request);
    const obstacle = whyNotAsked(client, request.kind);
    if (obstacle !== undefined) throw obstacle;
    // Whoever asks the same meanwhile shares the answer.
    const place = JSON.stringify([client.instance, client.key, request]);
    const known = this.#shared.get(place);
    if (known !== undefined) return known;
    const asking = this.#askElsewhere(client, request, mail).finally(() => this.#shared.delete(place));
    this.#shared.set(place, asking);
    return asking;
  }

  async #askElsewhere(client: KnownClient, request: AskRequest, mail: Mail): Promise<AskAnswer> {
    const { instance, wayMs } = this.#options;
    const leave = this.#room.enter(request.kind);
    if (leave === undefined) throw busy('other server instances are asked as much as they may be');
    const id = hexId();
    const timeoutMs = wayMs + (request.kind === 'details' ? ASK_TIMES.tellMs : ASK_TIMES.actMs);
    const answered = this.#wait(id, client.instance, timeoutMs).finally(leave);
    answered.catch(() => undefined); // it may be late before it is sent; whoever asked gets it below
    const { key, instance: to } = client;
    try {
      await mail.send(await packed({ ask: { id, from: instance, to, client: key, ...request } }));
    } catch (error) {
      this.#waiting.get(id)?.end(noAnswer(`server instance ${to} cannot be asked: ${errorText(error)}`));
    }
    return answered;
  }

  #wait(id: string, instance: string, timeoutMs: number): Promise<AskAnswer> {
    return new Promise((resolve, reject) => {
      const late = (): void => {
        const text = `server instance ${instance}, to which the client is connected, has not answered within ${timeoutMs / 1000} s`;
        this.#waiting.get(id)?.end(noAnswer(text));
      };
      const timer = setTimeout(late, timeoutMs);
      this.#waiting.set(id, {
        end: (outcome) => {
          clearTimeout(timer);
          this.#waiting.delete(id);
          if (outcome instanceof SyncError) reject(outcome);
          else resolve(outcome);
        },
      });
    });
  }

  async #take(text: string): Promise<void> {
    if (text.length > MAX_PACKED) return;
    const found = anyMail.parse(await unpacked(text));
    const { instance } = this.#options;
    if ('answer' in found && found.answer.to === instance) this.#answered(found.answer);
    if ('ask' in found && found.ask.to === instance) await this.#carryOut(found.ask);
  }

  #answered({ id, answer: given, failure }: AnswerMail): void {
    const waiting = this.#waiting.get(id);
    if (given !== undefined) waiting?.end(given);
    else if (failure !== undefined) waiting?.end(new SyncError(failure.code, failure.message));
  }

  async #carryOut(asked: AskMail): Promise<void> {
    const { mail, log } = this.#deps;
    const answered = { id: asked.id, to: asked.from };
    let told: AnswerMail;
    try {
      told = { ...answered, answer: await this.#ask(asked) };
    } catch (error) {
      const code = CODES.find((known) => error instanceof SyncError && error.code === known) ?? 'client_no_answer';
      told = { ...answered, failure: { code, message: errorText(error).slice(0, 1000) } };
    }
    await mail
      ?.send(await packed({ answer: told }))
      .catch((error: unknown) => log.debug(failureFields(error), 'another instance could not be answered'));
  }

  async #ask({ client: key, kind, level, from }: AskMail): Promise<AskAnswer> {
    const client = this.#deps.clientOf(key);
    if (client === undefined) throw new SyncError('client_away', 'the client is connected nowhere any more');
    if (kind === 'log_level' && level === undefined) throw noAnswer(`instance ${from} names no level`);
    const leave = this.#roomForOthers.enter(kind);
    if (leave === undefined) throw busy('this server instance is asked as much as it may be');
    try {
      const request = kind === 'log_level' ? { kind, level: level ?? 'info' } : { kind };
      return await this.#deps.asks.ask(client, request);
    } finally {
      leave();
    }
  }
}

async function packed(mail: { ask: AskMail } | { answer: AnswerMail }): Promise<string> {
  return (await compress(JSON.stringify(mail))).toString('base64');
}

async function unpacked(text: string): Promise<unknown> {
  const json = await decompress(Buffer.from(text, 'base64'), { maxOutputLength: MAX_UNPACKED });
  return parseJson(String(json));
}
