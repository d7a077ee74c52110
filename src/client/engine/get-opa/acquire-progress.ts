/** One way of {@link acquireOpa} to get an OPA. */
export type AcquireWay = 'configured' | 'path' | 'cache' | 'download';

/** Progress of `acquireOpa`. Times are in milliseconds since the phase began. */
export type AcquireProgress =
  | { phase: 'download'; url: string; receivedBytes: number; totalBytes: number | undefined; elapsedMs: number }
  /** A way failed; `next` is tried now, undefined after the last. */
  | { phase: 'failed'; way: AcquireWay; message: string; next: string | undefined }
  | { phase: 'found'; way: AcquireWay; path: string; version: string };

/** The part of a terminal or file stream that the printer needs. */
interface ProgressStream {
  write(text: string): unknown;
  isTTY?: boolean | undefined;
  columns?: number | undefined;
}

/** Off a terminal: one line per this many milliseconds. */
const LINE_EVERY_MS = 10_000;
/** On a terminal: at most one redraw per this many milliseconds. */
const REDRAW_EVERY_MS = 100;
const BAR_WIDTH = 24;

/**
 * Creates a printer for {@link AcquireProgress}: on a terminal it redraws one line, elsewhere it
 * prints a line every ten seconds, so that a log stays short and a long download is not silent.
 */
export function progressPrinter(stream: ProgressStream): (progress: AcquireProgress) => void {
  const tty = stream.isTTY === true;
  let drawn = false;
  let lastMs = Number.NEGATIVE_INFINITY;
  let lastPhase = '';
  const line = (text: string): void => {
    stream.write(`${drawn ? '\r\u001b[K' : ''}${text}\n`);
    drawn = false;
  };
  return (progress) => {
    if (progress.phase === 'found' || progress.phase === 'failed') {
      line(describeProgress(progress));
      lastPhase = progress.phase;
      return;
    }
    const first = progress.phase !== lastPhase;
    const whole = progress.phase === 'download' && progress.receivedBytes === progress.totalBytes;
    if (!first && !whole && progress.elapsedMs - lastMs < (tty ? REDRAW_EVERY_MS : LINE_EVERY_MS)) return;
    lastMs = progress.elapsedMs;
    lastPhase = progress.phase;
    const text = describeProgress(progress);
    if (!tty) return line(text);
    // One column less than the terminal: a full line would wrap and could not be redrawn.
    stream.write(`\r\u001b[K${text.slice(0, (stream.columns ?? 80) - 1)}`);
    drawn = true;
  };
}

/** Returns the progress as one line of text. */
export function describeProgress(progress: AcquireProgress): string {
  switch (progress.phase) {
    case 'found':
      return `opa: using ${progress.path} (version ${progress.version})`;
    case 'failed':
      return `opa: ${progress.message}${progress.next === undefined ? '' : `; next: ${progress.next}`}`;
    case 'download':
      return `opa: downloading ${bar(progress.receivedBytes, progress.totalBytes)} ${seconds(progress.elapsedMs)}`;
  }
}

function bar(received: number, total: number | undefined): string {
  const megabytes = (bytes: number): string => (bytes / 1_000_000).toFixed(1);
  if (total === undefined || total === 0) return `${megabytes(received)} MB`;
  const part = Math.min(1, received / total);
  const filled = Math.round(part * BAR_WIDTH);
  const drawing = '#'.repeat(filled) + '-'.repeat(BAR_WIDTH - filled);
  return `[${drawing}] ${Math.floor(part * 100)}% of ${megabytes(total)} MB`;
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`;
}
