import { join } from 'node:path';
import { freePort } from '../../test/support/opa.js';
import { type Program, startProgram } from './program.js';
import { answers } from './wait.js';

/** A data source in a process of its own. What it answers depends on the URL alone. */
export interface Source extends Program {
  /** URL of a document `{"n":<n>,"users":[...]}` of about so many bytes. */
  document(n: number, bytes: number): string;
  /** How many documents it was asked for so far. */
  asked(): Promise<number>;
}

export async function startSource(dir: string): Promise<Source> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const program = startProgram({
    command: process.execPath,
    args: [join(import.meta.dirname, 'source-process.js'), String(port)],
    cwd: dir,
    logFile: join(dir, 'source.log'),
  });
  await answers(program, `${url}/?n=0&bytes=100`);
  return {
    ...program,
    document: (n, bytes) => `${url}/?n=${n}&bytes=${bytes}`,
    asked: async () => Number(await (await fetch(`${url}/asked`)).text()),
  };
}
