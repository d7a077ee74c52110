import { SyncError } from './errors.js';

/** The parts of a response that reading its body needs. */
export interface ReadableAnswer {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: AsyncIterable<Uint8Array> & { destroy(error?: Error): unknown };
}

/**
 * The body of a response as text, decoded as it arrives. Throws `answer_too_large`, and closes the connection, if it is longer than
 * `limitBytes`, or is announced to be.
 */
export async function bodyText({ headers, body }: ReadableAnswer, limitBytes: number): Promise<string> {
  const tooLarge = (bytes: string): SyncError => {
    const message = `the answer of the sync server has ${bytes} bytes, more than ${limitBytes}`;
    return new SyncError('answer_too_large', message, { retryable: true });
  };
  const announced = Number(headers['content-length'] ?? 0);
  if (announced > limitBytes) throw dropped(body, tooLarge(String(announced)));
  const decoder = new TextDecoder();
  let text = '';
  let sizeBytes = 0;
  for await (const chunk of body) {
    sizeBytes += chunk.length;
    if (sizeBytes > limitBytes) throw dropped(body, tooLarge(`at least ${sizeBytes}`));
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

/** The first bytes of a body, as many as arrived before it failed. */
export async function bodyStart(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  limitBytes: number,
): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  try {
    for await (const chunk of body) {
      chunks.push(chunk);
      sizeBytes += chunk.length;
      if (sizeBytes >= limitBytes) break; // which also ends the connection
    }
  } catch {
    // The status is what counts; the text beside it is a courtesy.
  }
  return Buffer.concat(chunks).subarray(0, limitBytes);
}

/** Drops the rest of a body and returns the error to throw. */
function dropped(body: ReadableAnswer['body'], error: SyncError): SyncError {
  body.destroy();
  return error;
}
