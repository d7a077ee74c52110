import type { Context, SpanContext, SpanKind } from '@opentelemetry/api';
import { firstOf } from '../run/async.js';

/**
 * Traces for OpenTelemetry. Without an SDK in this process there is no {@link Tracing}, and nothing
 * of it is loaded or allocated.
 */

/** What is known of a span. */
export type TraceAttributes = Readonly<Record<string, string | number | boolean>>;

/** How a span begins. */
export interface TraceStart {
  /** `traceparent` of the span that caused it (W3C); undefined or not valid: it begins a trace. */
  readonly parent?: string | undefined;
  /** Default: internal. */
  readonly kind?: 'server' | 'client' | 'producer' | 'consumer';
  readonly attributes?: TraceAttributes;
  /** When it began, in milliseconds since 1970. Default: now. */
  readonly startMs?: number;
}

/** A span that has begun. */
export interface TraceSpan {
  /** What children name as their parent, in this process or another. */
  readonly traceparent: string;
  /** Spans that `work` begins by itself, as instrumented libraries do, are children. */
  run<T>(work: () => T): T;
  set(attributes: TraceAttributes): void;
  /** Ends it; with an error as failed. */
  end(error?: unknown): void;
}

/** Begins spans. */
export interface Tracing {
  start(name: string, begin?: TraceStart): TraceSpan;
  /** Resolves when the SDK has sent what it holds, or gave up. Never rejects. */
  flush(): Promise<void>;
}

/** Where @opentelemetry/api keeps what an SDK registers, whichever copy of it that has. */
const API = Symbol.for('opentelemetry.js.api.1');
const SCOPE = 'policysync';
/** Longest wait for the SDK at the end. */
const FLUSH_MS = 2000;
/** Longest `traceparent` that is read; later versions may add to the 55 characters of this one. */
const MAX_CHARS = 512;
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:$|-)/;

/**
 * The `traceparent` of a header or message, as version 00; undefined where it is not valid: W3C
 * wants it ignored then.
 */
export function validTraceparent(text: unknown): string | undefined {
  const context = typeof text === 'string' && text.length <= MAX_CHARS ? remoteContext(text) : undefined;
  return context && printed(context);
}

/**
 * Spans of this process; undefined unless an SDK has registered itself before. `version`: of this
 * package.
 */
export async function openTracing(version: string): Promise<Tracing | undefined> {
  const registered: unknown = Reflect.get(globalThis, API);
  if (typeof registered !== 'object' || registered === null || !('trace' in registered)) return undefined;
  const { ROOT_CONTEXT, SpanKind, SpanStatusCode, context, trace } = await import('@opentelemetry/api');
  const tracer = trace.getTracer(SCOPE, version);
  const kinds: Record<NonNullable<TraceStart['kind']>, SpanKind> = {
    server: SpanKind.SERVER,
    client: SpanKind.CLIENT,
    producer: SpanKind.PRODUCER,
    consumer: SpanKind.CONSUMER,
  };

  /**
   * An instrumented HTTP server has a span for the request already: it is between the caller's span
   * and ours.
   */
  function contextOf({ parent, kind }: TraceStart): Context {
    const spanContext = parent === undefined ? undefined : remoteContext(parent);
    const active = kind === 'server' ? trace.getSpanContext(context.active()) : undefined;
    const isOurs = active !== undefined && (spanContext === undefined || active.traceId === spanContext.traceId);
    const nearest = isOurs ? active : spanContext;
    return nearest === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, nearest);
  }

  return {
    start(name, begin = {}) {
      const { kind, attributes, startMs } = begin;
      const options = {
        ...(kind !== undefined && { kind: kinds[kind] }),
        ...(attributes !== undefined && { attributes }),
        ...(startMs !== undefined && { startTime: startMs }),
      };
      const span = tracer.startSpan(name, options, contextOf(begin));
      return {
        traceparent: printed(span.spanContext()),
        run: (work) => context.with(trace.setSpan(ROOT_CONTEXT, span), work),
        set: (more) => void span.setAttributes(more),
        end: (error) => {
          if (error !== undefined) {
            const message = error instanceof Error ? error.message : String(error);
            span.setStatus({ code: SpanStatusCode.ERROR, message });
          }
          span.end();
        },
      };
    },
    async flush() {
      const provider = trace.getTracerProvider();
      const delegate = 'getDelegate' in provider ? (provider.getDelegate as () => unknown).call(provider) : provider;
      if (typeof delegate !== 'object' || delegate === null || !('forceFlush' in delegate)) return;
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, FLUSH_MS);
      });
      const force = delegate.forceFlush as () => unknown;
      // The SDK logs its failure; our end does not depend on it.
      const flushed = Promise.resolve(delegate)
        .then((one) => force.call(one))
        .catch(() => undefined);
      await firstOf([flushed, late]);
      clearTimeout(timer);
    },
  };
}

/**
 * Runs `work` in a span, which gets its failure; without tracing it just runs. `work` gets what
 * children name as their parent.
 */
export async function inSpan<T>(
  tracing: Tracing | undefined,
  name: string,
  begin: TraceStart,
  work: (traceparent: string | undefined) => Promise<T>,
): Promise<T> {
  if (tracing === undefined) return await work(begin.parent);
  const span = tracing.start(name, begin);
  try {
    const result = await span.run(() => work(span.traceparent));
    span.end();
    return result;
  } catch (error) {
    span.end(error);
    throw error;
  }
}

function remoteContext(traceparent: string): SpanContext | undefined {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent) ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
}

function printed({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
}
