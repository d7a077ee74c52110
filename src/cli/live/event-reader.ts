/** One server-sent event. */
export interface ServerEvent {
  readonly name: string;
  readonly data: string;
  readonly id: string | undefined;
}

/** Longest line: the snapshot of a fleet. */
const MAX_CHARACTERS = 256 * 1024 * 1024;

/**
 * Reads `text/event-stream`. `onRetry`: called when the server says how long to wait before coming
 * back. Throws for an endless line.
 */
export async function* serverEvents(
  chunks: AsyncIterable<Uint8Array>,
  onRetry: (ms: number) => void,
): AsyncGenerator<ServerEvent> {
  let fields = new Map<string, string>();
  for await (const line of linesOf(chunks)) {
    if (line === '') {
      const [name, data] = [fields.get('event'), fields.get('data')];
      if (name !== undefined && data !== undefined) yield { name, data, id: fields.get('id') };
      fields = new Map();
      continue;
    }
    const [, field = '', value = ''] = /^([^:]*): ?(.*)$/s.exec(line) ?? [];
    if (field === 'retry' && /^\d{1,6}$/.test(value)) onRetry(Number(value));
    else fields.set(field, value);
  }
}

async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let begun: string[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    const [first = '', ...rest] = decoder.decode(chunk, { stream: true }).split('\n');
    begun.push(first);
    size += first.length;
    if (size > MAX_CHARACTERS) throw new Error('a line of the stream has no end');
    for (const next of rest) {
      yield begun.join('');
      begun = [next];
      size = next.length;
    }
  }
}
