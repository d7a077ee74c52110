import { createOpaFront, type OpaFrontOptions } from '../../src/embedded/rest/opa-front.js';
import type { DecisionSource, OpaRequest } from '../../src/embedded/types.js';
import type { EngineQuestion } from '../../src/embedded/vocabulary.js';
import { createHostCheck } from '../../src/http/request-guards.js';
import { silentLogger } from '../../src/lib/observe/log.js';

/** A front with a source that remembers what it was asked. */
export interface TestFront extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly questions: EngineQuestion[];
  /** What went to OPA's own handler. */
  readonly requests: OpaRequest[];
  close(): Promise<void>;
}

/** Starts a front on loopback. The source answers with the input, and with the path of a request to OPA's handler. */
export async function startFront(
  options: Partial<OpaFrontOptions> = {},
  source: Partial<DecisionSource> & { isReady?(): boolean } = {},
): Promise<TestFront> {
  const questions: EngineQuestion[] = [];
  const requests: OpaRequest[] = [];
  const asked: DecisionSource = {
    decide: async (question) => {
      questions.push(question);
      return source.decide?.(question) ?? { text: question.input, by: 'compiled', policy: 'abc' };
    },
    http: async (request) => {
      requests.push(request);
      const body = Buffer.from(JSON.stringify({ opa: request.url }));
      return source.http?.(request) ?? { status: 200, headers: { 'Content-Type': 'application/json' }, body };
    },
  };
  const host = '127.0.0.1';
  const front = createOpaFront(
    { host, port: 0, origins: ['http://localhost:8181'], ...options },
    {
      source: asked,
      log: silentLogger(),
      isReady: source.isReady ?? (() => true),
      checkHost: createHostCheck({ host, names: ['opa.example'] }),
    },
  );
  const { port } = await front.listen();
  const close = (): Promise<void> => front.close();
  return { url: `http://${host}:${port}`, port, questions, requests, close, [Symbol.asyncDispose]: close };
}
