import { randomBytes, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import * as z from 'zod';
import { EngineRefusal } from '../../../embedded/vocabulary.js';
import { SyncError } from '../../../lib/errors.js';
import { parseJson } from '../../../lib/json/json.js';
import { Pieces } from '../../../lib/net/pieces.js';
import { withAnySignal } from '../../../lib/run/async.js';
import { withModuleNames } from '../modules/bundle-archive.js';
import { AUTHZ_DECISION } from './opa-authz.js';
import { opaError, opaProblems } from './opa-rest.js';

/** The part of OPA's status report that concerns bundle activation. */
const statusBody = z.object({
  bundles: z
    .object({
      policy: z
        .object({
          active_revision: z.string().optional(),
          last_request: z.string().optional(),
          code: z.string().optional(),
          message: z.string().optional(),
          errors: z.array(opaError).optional(),
        })
        .optional(),
    })
    .optional(),
});
type BundleStatus = NonNullable<NonNullable<z.infer<typeof statusBody>['bundles']>['policy']>;

/** The bundle in OPA's configuration; OPA lists its modules below this name. */
export const BUNDLE_NAME = 'policy';

/** Time that one long poll is held before the 304 response. */
const POLL_MS = 50_000;

interface Attempt {
  readonly revision: string;
  readonly archive: Buffer;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
  served: boolean;
}

/**
 * Serves the policy bundle to our own OPA child on loopback, with long polling, so that a new
 * bundle is activated at once; OPA's status reports contain the result. OPA activates a bundle
 * completely or not at all (design D12).
 */
export class OpaBundleServer {
  readonly #token = randomBytes(24).toString('base64url');
  readonly #server: Server;
  readonly #waiting = new Set<() => void>();
  /** What OPA has activated; without the archive once that is not what OPA should hold any more. */
  #active: { readonly revision: string; readonly archive: Buffer | undefined } | undefined;
  #attempt: Attempt | undefined;
  #seenRequest: string | undefined;

  constructor() {
    this.#server = createServer((request, response) => this.#handle(request, response));
    this.#server.keepAliveTimeout = 70_000;
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(0, '127.0.0.1', resolve);
    });
  }

  async stop(): Promise<void> {
    this.engineGone();
    for (const wake of [...this.#waiting]) wake();
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
  }

  /** Its listen address, once started. */
  get place(): { host: string; port: number } {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the bundle service has not been started');
    return { host: address.address, port: address.port };
  }

  /**
   * Returns the OPA configuration that makes it follow this service. `isGuarded`: OPA has our
   * authorization policy.
   */
  opaConfig(isGuarded: boolean): string {
    return JSON.stringify({
      services: {
        policysync: {
          url: `http://127.0.0.1:${this.place.port}`,
          credentials: { bearer: { token: this.#token } },
          response_header_timeout_seconds: 2 * (POLL_MS / 1000),
        },
      },
      bundles: {
        [BUNDLE_NAME]: {
          service: 'policysync',
          resource: '/bundle.tar.gz',
          polling: { min_delay_seconds: 1, max_delay_seconds: 1, long_polling_timeout_seconds: POLL_MS / 1000 + 10 },
        },
      },
      status: { service: 'policysync' },
      // Overrides the operator's configuration while our authorization policy is on.
      ...(isGuarded && { default_authorization_decision: AUTHZ_DECISION }),
    });
  }

  /**
   * Offers a bundle; resolves when OPA has activated it. Rejects with {@link EngineRefusal} if OPA
   * refuses it (and keeps the previous one), and with `engine_unreachable` if OPA does not activate
   * it in time or exits.
   */
  async activate(revision: string, archive: Buffer, timeoutMs: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#attempt !== undefined) throw new Error('bundles are activated one at a time');
    const taken = (within: AbortSignal): Promise<void> =>
      new Promise((resolve, reject) => {
        within.addEventListener('abort', () => reject(within.reason), { once: true });
        this.#attempt = { revision, archive, resolve, reject, served: false };
        for (const wake of [...this.#waiting]) wake();
      });
    try {
      await withAnySignal([signal], taken, timeoutMs);
      this.#active = { revision, archive };
    } catch (cause) {
      if (!(cause instanceof Error && cause.name === 'TimeoutError') || signal.aborted) throw cause;
      const message = `the policy engine did not take the bundle within ${timeoutMs} ms`;
      throw new SyncError('engine_unreachable', message, { cause, retryable: true });
    } finally {
      this.#attempt = undefined;
    }
  }

  /**
   * Called when the engine has exited: fails an activation in progress. The next engine gets
   * documents first, and is offered nothing.
   */
  engineGone(): void {
    this.clear();
    this.#attempt?.reject(
      new SyncError('engine_unreachable', 'the policy engine ended while it took the bundle', { retryable: true }),
    );
    this.#seenRequest = undefined;
  }

  /**
   * The documents of the active bundle are about to change without another bundle: it is offered no
   * more.
   */
  outdate(): void {
    if (this.#active !== undefined) this.#active = { revision: this.#active.revision, archive: undefined };
  }

  /** Offers nothing until the next activation, which brings the policy to a new engine. */
  clear(): void {
    this.#active = undefined;
  }

  #handle(request: IncomingMessage, response: ServerResponse): void {
    if (!this.#authorized(request)) {
      response.writeHead(401).end();
      return;
    }
    if (request.method === 'GET' && request.url === '/bundle.tar.gz') this.#offer(request, response);
    else if (request.method === 'POST') this.#readStatus(request, response);
    else response.writeHead(404).end();
  }

  #authorized(request: IncomingMessage): boolean {
    const given = Buffer.from(request.headers.authorization ?? '');
    const due = Buffer.from(`Bearer ${this.#token}`);
    return given.length === due.length && timingSafeEqual(given, due);
  }

  #offer(request: IncomingMessage, response: ServerResponse): void {
    const has = request.headers['if-none-match'];
    const attempt = this.#attempt;
    if (attempt !== undefined) {
      if (has === etagOf(attempt.revision)) attempt.resolve();
      else if (!attempt.served) {
        attempt.served = true;
        send(response, attempt.revision, attempt.archive);
        return;
      }
    } else if (this.#active?.archive !== undefined && has !== etagOf(this.#active.revision)) {
      send(response, this.#active.revision, this.#active.archive);
      return;
    }
    // OPA has the newest bundle or has just refused it: hold the request until there is another
    // one.
    const release = (): void => {
      this.#waiting.delete(release);
      clearTimeout(timer);
      if (response.destroyed) return;
      if (this.#attempt === undefined && this.#active === undefined) response.writeHead(304).end();
      else this.#offer(request, response);
    };
    const timer = setTimeout(() => {
      this.#waiting.delete(release);
      if (!response.destroyed) response.writeHead(304, { etag: has ?? '' }).end();
    }, POLL_MS);
    response.once('close', () => {
      this.#waiting.delete(release);
      clearTimeout(timer);
    });
    this.#waiting.add(release);
  }

  #readStatus(request: IncomingMessage, response: ServerResponse): void {
    const pieces = new Pieces();
    request.on('data', (chunk: Buffer) => pieces.push(chunk));
    request.on('end', () => {
      response.writeHead(200).end();
      let value: unknown;
      try {
        value = parseJson(pieces.join().toString('utf8'));
      } catch {
        return; // truncated when the child exited; the next report is complete
      }
      const parsed = statusBody.safeParse(value);
      if (parsed.success && parsed.data.bundles?.policy !== undefined) this.#report(parsed.data.bundles.policy);
    });
    request.on('error', () => response.destroy());
  }

  /**
   * A report concerns the attempt only if OPA's last request is newer than that of the previous
   * reports.
   */
  #report(status: BundleStatus): void {
    const attempt = this.#attempt;
    const fresh = status.last_request !== undefined && status.last_request !== this.#seenRequest;
    if (attempt === undefined || !attempt.served) {
      this.#seenRequest = status.last_request;
      return;
    }
    if (status.active_revision === attempt.revision && status.code === undefined) {
      this.#seenRequest = status.last_request;
      attempt.resolve();
    } else if (fresh && status.code !== undefined) {
      this.#seenRequest = status.last_request;
      const problems = withModuleNames(opaProblems(status.errors ?? []));
      attempt.reject(
        new EngineRefusal(
          status.message ?? status.code,
          problems.length > 0 ? problems : [{ message: status.message ?? status.code }],
        ),
      );
    }
  }
}

function etagOf(revision: string): string {
  return `"${revision}"`;
}

function send(response: ServerResponse, revision: string, archive: Buffer): void {
  response.writeHead(200, {
    'content-type': 'application/vnd.openpolicyagent.bundles',
    'content-length': archive.length,
    etag: etagOf(revision),
  });
  response.end(archive);
}
