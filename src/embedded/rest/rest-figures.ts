/** Upper bounds in seconds, as those of OPA. */
const BUCKETS: readonly number[] = [1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 0.01, 0.1, 1];
const BOUNDS: readonly string[] = ['1e-06', '5e-06', '1e-05', '5e-05', '0.0001', '0.0005', '0.001', '0.01', '0.1', '1'];
const NAME = 'http_request_duration_seconds';

interface Series {
  readonly labels: string;
  readonly counts: number[];
  sum: number;
}

/** Durations of requests, under the name and with the labels of OPA's own metrics. */
export class RestFigures {
  readonly #series = new Map<string, Series>();

  /** Counts a request. The values are few: status, `handlerLabel`, and a method that is served. */
  observe(status: number, handler: string, method: string, seconds: number): void {
    const key = `${status} ${handler} ${method}`;
    let series = this.#series.get(key);
    if (series === undefined) {
      const labels = `code="${status}",handler="${handler}",method="${method.toLowerCase()}"`;
      series = { labels, counts: new Array<number>(BUCKETS.length + 1).fill(0), sum: 0 };
      this.#series.set(key, series);
    }
    let bucket = 0;
    while (bucket < BUCKETS.length && seconds > (BUCKETS[bucket] ?? 0)) bucket += 1;
    series.counts[bucket] = (series.counts[bucket] ?? 0) + 1;
    series.sum += seconds;
  }

  /** The text that Prometheus reads. */
  text(): string {
    const lines = [`# HELP ${NAME} A histogram of duration for requests.`, `# TYPE ${NAME} histogram`];
    for (const { labels, counts, sum } of this.#series.values()) {
      let total = 0;
      for (const [index, le] of [...BOUNDS, '+Inf'].entries()) {
        total += counts[index] ?? 0;
        lines.push(`${NAME}_bucket{${labels},le="${le}"} ${total}`);
      }
      lines.push(`${NAME}_sum{${labels}} ${sum}`, `${NAME}_count{${labels}} ${total}`);
    }
    return `${lines.join('\n')}\n`;
  }
}
