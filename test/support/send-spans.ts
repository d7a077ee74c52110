import { trace } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';

// For `NODE_OPTIONS=--import`: a program of a test sends its spans, as an operator would have it.
const exporter = new OTLPTraceExporter({ url: process.env.TEST_SPANS_URL ?? '' });
const spanProcessors = [new BatchSpanProcessor(exporter, { scheduledDelayMillis: 100 })];
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors }));
