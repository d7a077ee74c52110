/**
 * Upper bounds of the buckets of apply latency, in seconds; one more bucket has what took longer.
 */
export const LATENCY_BUCKETS = [0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10] as const;
