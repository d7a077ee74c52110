import { createServer } from 'node:http';
import { field } from './http.js';
import { listening } from './http-server.js';

/** A span as the collector got it. */
export interface CollectedSpan {
  /** The program that sent it: the path of its address. */
  readonly program: string;
  readonly name: string;
  readonly trace: string;
  readonly id: string;
  /** Empty for the first of a trace. */
  readonly parent: string;
  readonly scope: string;
  /** 2: failed. */
  readonly status: number;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, unknown>>;
}

/** Receives spans over OTLP/HTTP, as JSON. `await using` stops it. */
export interface SpanCollector extends AsyncDisposable {
  /** For a program of this name. */
  url(program: string): string;
  readonly spans: readonly CollectedSpan[];
}

/** Starts a {@link SpanCollector}. */
export async function startSpanCollector(): Promise<SpanCollector> {
  const spans: CollectedSpan[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const program = (request.url ?? '').split('/')[1] ?? '';
    spans.push(...spansOf(program, JSON.parse(Buffer.concat(chunks).toString())));
    response.setHeader('content-type', 'application/json').end('{}');
  });
  const started = await listening(server);
  return {
    url: (program) => `${started.url}/${program}/v1/traces`,
    spans,
    [Symbol.asyncDispose]: () => started[Symbol.asyncDispose](),
  };
}

function spansOf(program: string, body: unknown): CollectedSpan[] {
  const scopes = listOf(body, 'resourceSpans').flatMap((resource) => listOf(resource, 'scopeSpans'));
  return scopes.flatMap((scope) =>
    listOf(scope, 'spans').map((span) => ({
      program,
      name: String(field(span, 'name')),
      trace: String(field(span, 'traceId')),
      id: String(field(span, 'spanId')),
      parent: String(field(span, 'parentSpanId') ?? ''),
      scope: String(field(scope, 'scope', 'name')),
      status: Number(field(span, 'status', 'code') ?? 0),
      startMs: Number(field(span, 'startTimeUnixNano')) / 1e6,
      endMs: Number(field(span, 'endTimeUnixNano')) / 1e6,
      attributes: Object.fromEntries(
        listOf(span, 'attributes').map((one) => [
          String(field(one, 'key')),
          field(one, 'value', 'stringValue') ?? Number(field(one, 'value', 'intValue')),
        ]),
      ),
    })),
  );
}

function listOf(value: unknown, name: string): unknown[] {
  const found = field(value, name);
  return Array.isArray(found) ? found : [];
}
